import { isDeepStrictEqual } from 'node:util';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { Documents } from '../documents';
import { RolloutError } from '../errors';
import { appendEntries, entriesBefore, readLinks, toEntries } from './chain';
import { toText } from './observations';

type ObservationEntry = Extract<TrajectoryEntry, { type: 'observation' }>;

/** An observation that a continuation was shown differently from its parent. */
export interface EditedObservation {
  step: number;
  /** Its place among the calls of its step, from 1. */
  call: number;
  name: string;
  before: string;
  after: string;
}

/**
 * Writes a trajectory in which one observation has another text. The links before that observation are shared with the trajectory
 * that it was made from; its own link and those after it are written anew.
 * @param call  `STEP.N`, the n-th call of a step; or the id of a tool call where no other call has it
 * @returns the new head
 * @throws RolloutError invalid_request when there is no such call, or several
 */
export async function editObservation(
  documents: Pick<Documents, 'get' | 'put'>,
  head: string,
  call: string,
  text: string,
): Promise<string> {
  const links = await readLinks(documents, head);
  const edited = findObservation(toEntries(links), call);
  let newHead = '';
  let changed = false;
  for (const { ref, entries } of links) {
    const at = entries.indexOf(edited);
    if (at < 0 && !changed) {
      newHead = ref;
      continue;
    }
    changed = true;
    const written = at < 0 ? entries : entries.with(at, withText(edited, text));
    newHead = await appendEntries(documents, newHead, written);
  }
  return newHead;
}

function withText(entry: ObservationEntry, text: string): ObservationEntry {
  // `full` is the whole of the text that is replaced.
  const { full: _full, ...observation } = entry.observation;
  return { ...entry, observation: { ...observation, content: [{ type: 'text', text }] } };
}

function findObservation(entries: TrajectoryEntry[], call: string): ObservationEntry {
  const known = byNumber(entries);
  const numbered = known.get(call);
  if (numbered) return numbered;
  const matches = [...known].filter(([, { observation }]) => observation.toolCallId === call);
  const [match] = matches;
  if (match && matches.length === 1) return match[1];
  throw new RolloutError(
    'invalid_request',
    `--edit-observation ${call}: ${whyNot(known, matches)}`,
  );
}

function whyNot(
  known: Map<string, ObservationEntry>,
  matches: [string, ObservationEntry][],
): string {
  if (matches.length > 0) {
    const numbers = matches.map(([number]) => number).join(', ');
    return `several calls have that id; say which by its number, one of ${numbers}`;
  }
  if (known.size === 0) return 'no call was made before that step';
  const calls = [...known].map(
    ([number, { observation }]) => `${number} (${observation.name}, ${observation.toolCallId})`,
  );
  return `no such call before that step; there are ${calls.slice(-20).join(', ')}`;
}

/** Observations by `STEP.N`. Of a step whose calls were made again in a restored sandbox, the last ones count. */
function byNumber(entries: TrajectoryEntry[]): Map<string, ObservationEntry> {
  const found = new Map<string, ObservationEntry>();
  const calls = new Map<number, number>();
  for (const entry of entries) {
    if (entry.type === 'reply' || entry.type === 'restored') calls.set(entry.step, 0);
    if (entry.type !== 'observation') continue;
    const call = (calls.get(entry.step) ?? 0) + 1;
    calls.set(entry.step, call);
    found.set(`${entry.step}.${call}`, entry);
  }
  return found;
}

/** Lists the observations before a step that a continuation was shown differently from its parent. */
export function editsBetween(
  parent: TrajectoryEntry[],
  own: TrajectoryEntry[],
  step: number,
): EditedObservation[] {
  const before = byNumber(parent);
  return [...byNumber(entriesBefore(own, step))].flatMap(([number, entry]): EditedObservation[] => {
    const was = before.get(number);
    const shown = toText(entry.observation.content);
    const real = was ? toText(was.observation.content) : shown;
    if (real === shown) return [];
    const call = Number(number.split('.')[1]);
    return [{ step: entry.step, call, name: entry.observation.name, before: real, after: shown }];
  });
}

/**
 * Puts the observations that were really made in place of edited ones. All else stays as it is shown, what a person said included.
 * @param real  a transcript that has the same calls; a call that it does not have keeps its observation
 * @returns `shown` itself where no observation differs
 */
export function withRealObservations(
  shown: TrajectoryEntry[],
  real: TrajectoryEntry[],
): TrajectoryEntry[] {
  const made = byNumber(real);
  const replaced = new Map<TrajectoryEntry, ObservationEntry>();
  for (const [number, entry] of byNumber(shown)) {
    const was = made.get(number);
    if (was && !isDeepStrictEqual(was, entry)) replaced.set(entry, was);
  }
  return replaced.size === 0 ? shown : shown.map((entry) => replaced.get(entry) ?? entry);
}
