import { judgedVersion } from '../../rollouts/verdicts';
import type { VersionDiff } from '../../contracts/denv';
import type { RolloutResult } from '../../contracts/rollout';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { Rollouts } from './connect';
import { currentResult } from '../../rollouts/verdicts';
import { reasonOf } from '../errors';
import { hasExpired } from './fork-points';
import { readStanding } from './rollout-status';
import type { Standing } from './rollout-status';
import { readEntries } from '../../rollouts/trajectory/chain';

/** Where two rollouts differ first, and how each ended. */
export interface RolloutDiff {
  rolloutIds: [string, string];
  /** The first entry that differs; null where both transcripts are the same. */
  parting: Parting | null;
  /** Entries that both begin with. */
  shared: number;
  sides: [DiffSide, DiffSide];
  files: FilesDiff;
}

export interface Parting {
  step: number;
  /** Null where that rollout has nothing more. */
  entries: [TrajectoryEntry | null, TrajectoryEntry | null];
}

export interface DiffSide {
  state: Standing['state'];
  reward: number | null;
  rewards: Record<string, number>;
  grades: Record<string, number | null>;
  stopReason: string | null;
  model: string;
  steps: number;
  toolCalls: number | null;
  usage: RolloutResult['usage'] | null;
  workedS: number | null;
}

/** `diff` is null where it is not known; `why` says the reason. */
export interface FilesDiff {
  versions: [string | null, string | null];
  diff: VersionDiff | null;
  why: string | null;
}

type Side = { standing: Standing; result: RolloutResult | null; entries: TrajectoryEntry[] };

/**
 * Compares two rollouts: their transcripts, how they ended, and the files of the versions that were verified, or else of their last
 * checkpoints.
 * @throws UserError when one of them is not there
 */
export async function diffRollouts(
  rollouts: Rollouts,
  ids: [string, string],
): Promise<RolloutDiff> {
  const a = await readSide(rollouts, ids[0]);
  const b = await readSide(rollouts, ids[1]);
  const shared = sharedEntries(a.entries, b.entries);
  return {
    rolloutIds: ids,
    shared,
    parting: partingAt(shared, a.entries, b.entries),
    sides: [outcomeOf(a), outcomeOf(b)],
    files: await diffFiles(rollouts, lastVersion(a), lastVersion(b)),
  };
}

async function readSide(rollouts: Rollouts, rolloutId: string): Promise<Side> {
  const standing = await readStanding(rollouts, rolloutId);
  const row = await rollouts.ledger.rollout(rolloutId);
  const result = row && currentResult(row);
  const entries = await readEntries(rollouts.documents, standing.trajectory);
  return { standing, result, entries };
}

function sharedEntries(a: TrajectoryEntry[], b: TrajectoryEntry[]): number {
  let shared = 0;
  while (shared < a.length && shared < b.length && same(a[shared], b[shared])) shared += 1;
  return shared;
}

function partingAt(shared: number, a: TrajectoryEntry[], b: TrajectoryEntry[]): Parting | null {
  const entries: Parting['entries'] = [a[shared] ?? null, b[shared] ?? null];
  const first = entries[0] ?? entries[1];
  if (!first) return null;
  return { step: 'step' in first ? first.step : 0, entries };
}

/** Compares what the agent said, did and saw; not how long it took, what it cost or the ids of its calls. */
function same(a: TrajectoryEntry | undefined, b: TrajectoryEntry | undefined): boolean {
  return JSON.stringify(meaningOf(a)) === JSON.stringify(meaningOf(b));
}

function meaningOf(entry: TrajectoryEntry | undefined): unknown {
  if (entry?.type === 'reply') {
    const { text, toolCalls, finishReason } = entry.reply;
    const calls = toolCalls.map(({ name, arguments: args, rawArguments }) => [
      name,
      args,
      rawArguments,
    ]);
    return ['reply', entry.step, text, calls, finishReason];
  }
  if (entry?.type === 'observation') {
    const { name, isError, content } = entry.observation;
    return ['observation', entry.step, name, isError, content];
  }
  return entry;
}

function outcomeOf({ standing, result }: Side): DiffSide {
  return {
    state: standing.state,
    reward: standing.reward,
    rewards: result?.rewards ?? {},
    grades: Object.fromEntries((result?.grades ?? []).map(({ name, reward }) => [name, reward])),
    stopReason: result?.stopReason ?? null,
    model: standing.input.model.name,
    steps: standing.steps,
    toolCalls: result?.toolCalls ?? null,
    usage: result?.usage ?? null,
    workedS: result?.workedS ?? null,
  };
}

function lastVersion({ standing, result }: Side): string | null {
  return judgedVersion(result) ?? standing.checkpoints.at(-1)?.version ?? null;
}

async function diffFiles(
  { denv }: Rollouts,
  a: string | null,
  b: string | null,
): Promise<FilesDiff> {
  const versions: FilesDiff['versions'] = [a, b];
  if (a === null || b === null) {
    const which = a === null ? (b === null ? 'neither' : 'the first') : 'the second';
    const has = a === null && b === null ? 'has' : 'has not';
    return { versions, diff: null, why: `${which} ${has} a version of its files` };
  }
  if (a === b) return { versions, diff: { files: [], more: 0 }, why: null };
  try {
    return { versions, diff: await denv.diffVersions(a, b), why: null };
  } catch (error) {
    if (Reflect.get(Object(error), 'code') !== 'version_not_found') {
      return { versions, diff: null, why: `the files cannot be compared: ${reasonOf(error)}` };
    }
    const gone = (await Promise.all([a, b].map((id) => hasExpired(denv, id)))).flatMap((is, i) =>
      is ? [versions[i]] : [],
    );
    const which = gone.join(' and ');
    return { versions, diff: null, why: `${which} ${gone.length > 1 ? 'have' : 'has'} expired` };
  }
}
