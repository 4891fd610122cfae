import type { Version } from '../contracts/denv';
import type { RolloutEnd } from '../stores/ledger';
import type { Keep } from './keep-policies';

/** Which versions are kept for how long: pure rules, no question asked of anybody. */
export interface RetentionRules {
  /** After so many days a version goes, unless something at work needs it. */
  days: number;
  /** Versions together may take so much; null: as much as they do. */
  budgetBytes: number | null;
}

export interface VersionFacts {
  version: Version;
  /** Null where the ledger does not know its rollout. */
  rollout: RolloutFacts | null;
  /** A regrade under way judges it. */
  beingJudged: boolean;
  /** Of a rollout that keeps all of its checkpoints, and has this one of another's. */
  sharedBy: string | null;
}

export interface RolloutFacts {
  /** `unknown`: without a result, and Temporal does not know it either. */
  state: 'live' | 'closed' | 'unknown';
  endedMs: number;
  /** Null where nobody said: as `final`, but a day later. */
  keep: Keep;
  /** What at work may go on from any of its steps; null when nothing does. */
  neededBy: string | null;
  judged: RolloutEnd['judged'];
  /** Of its group: whether its reward is the best one; null while one of them has no result. */
  best: boolean | null;
}

/**
 * What keeps a version. `work`: something at work needs it, whatever its age. `verdict`: until its age is over. `policy`: until its
 * age is over or the disk is full. `spare`: for a day, or until the disk is full. `unknown`: left to the server's own retention.
 */
export interface Hold {
  kind: 'work' | 'unknown' | 'verdict' | 'policy' | 'spare' | 'none';
  why: string;
}

const dayMs = 86_400_000;

export function holdOf(facts: VersionFacts, rules: RetentionRules, nowMs: number): Hold {
  const { version, rollout, beingJudged } = facts;
  const [sandbox] = version.usedBy;
  if (sandbox !== undefined) return { kind: 'work', why: `sandbox ${sandbox} was made from it` };
  if (beingJudged) return { kind: 'work', why: 'a regrade is under way' };
  if (rollout === null) return { kind: 'unknown', why: 'the ledger does not know its rollout' };
  if (rollout.state === 'live') return { kind: 'work', why: 'its rollout runs' };
  if (rollout.neededBy !== null) return { kind: 'work', why: rollout.neededBy };
  if (rollout.state === 'unknown') {
    return { kind: 'unknown', why: 'nobody knows whether its rollout has ended' };
  }
  if (rollout.keep === 'unknown') {
    return { kind: 'unknown', why: 'nobody knows what its rollout was started with' };
  }
  if (Date.parse(version.createdAt) + rules.days * dayMs <= nowMs) {
    return { kind: 'none', why: `older than ${rules.days} days` };
  }
  return (
    verdictHold(version, rollout) ??
    policyHold(facts, rollout) ??
    spareHold(rollout, nowMs) ?? {
      kind: 'none',
      why: `nothing keeps it (${rollout.keep ?? 'final'})`,
    }
  );
}

/** With `none` a rollout's own verdict keeps nothing; one that was asked for later always does. */
function verdictHold({ id }: Version, { judged, keep }: RolloutFacts): Hold | null {
  const verdicts = judged.filter(({ version }) => version === id);
  if (verdicts.some(({ later, verdict }) => later && verdict !== 'none')) {
    return { kind: 'verdict', why: 'a later verdict judged it' };
  }
  if (keep === 'none' || verdicts.length === 0) return null;
  return verdicts.some(({ verdict }) => verdict !== 'none')
    ? { kind: 'verdict', why: 'its verdict judged it' }
    : { kind: 'policy', why: 'its verifier gave no verdict on it yet' };
}

function policyHold({ sharedBy }: VersionFacts, { keep, best }: RolloutFacts): Hold | null {
  if (keep === 'all') return { kind: 'policy', why: 'all are kept' };
  if (sharedBy !== null) return { kind: 'policy', why: `a checkpoint of ${sharedBy} too` };
  if (keep !== 'best') return null;
  if (best === null) return { kind: 'policy', why: 'the best of its group is not known yet' };
  return best ? { kind: 'policy', why: 'of the best in its group' } : null;
}

function spareHold({ keep, endedMs }: RolloutFacts, nowMs: number): Hold | null {
  const untilMs = endedMs + dayMs;
  if (keep !== null || nowMs >= untilMs) return null;
  return {
    kind: 'spare',
    why: `a day after its rollout's end, ${new Date(untilMs).toISOString()}`,
  };
}

export interface RetentionPlan {
  holds: { facts: VersionFacts; hold: Hold }[];
  /** Oldest first. */
  remove: { version: Version; why: string }[];
  /** Whose retention on the server would end before its age does. */
  retain: { version: Version; retentionS: number }[];
  bytes: number;
  /** By how much the rest is over the budget, with nothing left that may go. */
  overBytes: number;
}

/** What is to be done about all versions of an owner. A disk that is full takes what is spare first, each time the oldest. */
export function planRetention(
  all: VersionFacts[],
  rules: RetentionRules,
  nowMs: number,
): RetentionPlan {
  const holds = all
    .map((facts) => ({ facts, hold: holdOf(facts, rules, nowMs) }))
    .sort((a, b) => createdMs(a.facts) - createdMs(b.facts));
  const going = new Map<VersionFacts, string>();
  const bytes = sizeOf(all);
  let left = bytes;
  const goes = (facts: VersionFacts, why: string): void => {
    going.set(facts, why);
    left -= facts.version.bytes ?? 0;
  };
  for (const { facts, hold } of holds) if (hold.kind === 'none') goes(facts, hold.why);
  const budget = rules.budgetBytes ?? Infinity;
  for (const kind of ['spare', 'policy'] as const) {
    for (const { facts, hold } of holds) {
      if (left <= budget) break;
      // What holds nothing alone makes no room: it is measured anew once those that share it are gone.
      if (hold.kind === kind && facts.version.bytes) goes(facts, 'the disk budget is used up');
    }
  }
  return {
    holds,
    remove: holds.flatMap(({ facts }) => {
      const why = going.get(facts);
      return why === undefined ? [] : [{ version: facts.version, why }];
    }),
    retain: holds.flatMap(({ facts, hold }) =>
      going.has(facts) ? [] : retained(facts.version, hold, rules, nowMs),
    ),
    bytes,
    overBytes: Math.max(0, left - budget),
  };
}

function retained(
  version: Version,
  { kind }: Hold,
  { days }: RetentionRules,
  nowMs: number,
): RetentionPlan['retain'] {
  const untilMs = Date.parse(version.retainUntil);
  if (kind === 'work' && untilMs < nowMs + dayMs) {
    return [{ version, retentionS: Math.ceil(Math.max(1, days) * (dayMs / 1000)) }];
  }
  if (kind !== 'verdict' && kind !== 'policy') return [];
  const wantedMs = Date.parse(version.createdAt) + days * dayMs;
  // What the server's clock and ours make of the same moment is no reason to ask.
  if (untilMs >= wantedMs - 60_000) return [];
  return [{ version, retentionS: Math.ceil((wantedMs - nowMs) / 1000) }];
}

const createdMs = ({ version }: VersionFacts): number => Date.parse(version.createdAt);

export const sizeOf = (all: VersionFacts[]): number =>
  all.reduce((sum, { version }) => sum + (version.bytes ?? 0), 0);
