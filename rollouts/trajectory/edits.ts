import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { BlobStore } from '../../stores/blobs';
import { RolloutError } from '../errors';
import { addLink, entriesOf, readLinks } from './chain';

type ObservationEntry = Extract<TrajectoryEntry, { type: 'observation' }>;

/** An observation that a continuation was shown otherwise than its parent. */
export interface EditedObservation {
  step: number;
  /** Its place among the calls of its step, from 1. */
  call: number;
  name: string;
  before: string;
  after: string;
}

/**
 * A trajectory in which one observation says something else. Links before it are shared; the one that holds it and those after
 * are made anew.
 * @param call  `STEP.N`, the n-th call of a step; or the id of a tool call where no other call has it
 * @returns the new head
 * @throws RolloutError invalid_request when there is no such call, or several
 */
export async function editObservation(
  blobs: BlobStore,
  head: string,
  call: string,
  text: string,
): Promise<string> {
  const links = await readLinks(blobs, head);
  const edited = find(entriesOf(links), call);
  let newHead = '';
  let changed = false;
  for (const { ref, node } of links) {
    const at = node.entries.indexOf(edited);
    if (at < 0 && !changed) {
      newHead = ref;
      continue;
    }
    changed = true;
    newHead = await addLink(
      blobs,
      newHead,
      at < 0 ? node.entries : node.entries.with(at, saying(edited, text)),
    );
  }
  return newHead;
}

function saying(entry: ObservationEntry, text: string): ObservationEntry {
  // What was cut of the one before is no part of this one.
  const { full: _full, ...observation } = entry.observation;
  return { ...entry, observation: { ...observation, content: [{ type: 'text', text }] } };
}

function find(entries: TrajectoryEntry[], call: string): ObservationEntry {
  const known = numbered(entries);
  const byNumber = known.get(call);
  if (byNumber) return byNumber;
  const matches = [...known].filter(([, { observation }]) => observation.toolCallId === call);
  const [match] = matches;
  if (match && matches.length === 1) return match[1];
  if (match) {
    const which = matches.map(([number]) => number).join(', ');
    throw new RolloutError(
      'invalid_request',
      `--edit-observation ${call}: several calls have that id; say which by its number, one of ${which}`,
    );
  }
  const calls = [...known].map(
    ([number, { observation }]) => `${number} (${observation.name}, ${observation.toolCallId})`,
  );
  throw new RolloutError(
    'invalid_request',
    calls.length === 0
      ? `--edit-observation ${call}: no call was made before that step`
      : `--edit-observation ${call}: no such call before that step; there are ${calls.slice(-20).join(', ')}`,
  );
}

/** Observations by `STEP.N`. A step that was made again in a restored world counts by what came of it last. */
function numbered(entries: TrajectoryEntry[]): Map<string, ObservationEntry> {
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

/** What a continuation was shown otherwise than its parent, of the steps before it parted. */
export function editsBetween(
  parent: TrajectoryEntry[],
  own: TrajectoryEntry[],
  step: number,
): EditedObservation[] {
  const before = numbered(parent);
  return [...numbered(own)].flatMap(([number, entry]): EditedObservation[] => {
    const was = before.get(number);
    if (!was || entry.step >= step || textOf(was) === textOf(entry)) return [];
    const call = Number(number.split('.')[1]);
    const { name } = entry.observation;
    return [{ step: entry.step, call, name, before: textOf(was), after: textOf(entry) }];
  });
}

function textOf({ observation }: ObservationEntry): string {
  return observation.content
    .map((part) => (part.type === 'text' ? part.text : `[${part.mimeType}, ${part.ref}]`))
    .join('\n');
}
