import type { Version } from '../../contracts/denv';
import { DenvError } from '../../denv/errors';
import { createKeepPolicies } from '../../retention/keep-policies';
import { openWork } from '../../retention/open-work';
import { holdOf } from '../../retention/rules';
import type { Hold, RetentionRules } from '../../retention/rules';
import { gatherFacts } from '../../retention/facts';
import { judgedVersion } from '../../rollouts/verdicts';
import type { Rollouts } from './connect';
import { UserError } from '../errors';
import { readOpenStatus } from './rollouts';

/** A step that can be gone on from, or the end that a verdict judged, with what keeps its version. */
export interface KeptCheckpoint {
  /** Null for what the verifier judged at the end. */
  step: number | null;
  version: string;
  /** False once it has expired or was removed: all else is then not known. */
  exists: boolean;
  bytes: number | null;
  createdAt: string | null;
  ageS: number | null;
  expiresAt: string | null;
  keptBy: Hold | null;
}

/**
 * The checkpoints of a rollout that runs or has ended, and its final snapshot. Asks the denv server for each, and Temporal for
 * what still needs it; changes nothing.
 * @throws UserError when there is no such rollout, or nobody tells where it is
 */
export async function checkpointsOf(
  rollouts: Rollouts,
  rolloutId: string,
  rules: RetentionRules,
  now: Date,
): Promise<KeptCheckpoint[]> {
  const row = await rollouts.ledger.rollout(rolloutId);
  if (!row) throw new UserError(`there is no rollout ${rolloutId}; see: rollouts list`);
  const taken = row.result?.checkpoints ?? (await readOpenStatus(rollouts, rolloutId)).checkpoints;
  const final = judgedVersion(row.result);
  const named: { step: number | null; version: string }[] = [
    ...taken.map(({ step, version }) => ({ step, version })),
    ...(final === null ? [] : [{ step: null, version: final }]),
  ];
  const versions = new Map<string, Version>();
  for (const id of new Set(named.map(({ version }) => version))) {
    const found = await versionOrNull(rollouts, id);
    if (found) versions.set(id, found);
  }
  const holds = await holdsOf(rollouts, [...versions.values()], rules, now);
  return named.map(({ step, version }) =>
    described(step, version, versions.get(version), holds.get(version) ?? null, now),
  );
}

async function versionOrNull({ denv }: Rollouts, id: string): Promise<Version | null> {
  try {
    return await denv.getVersion(id, { size: true });
  } catch (error) {
    if (error instanceof DenvError && error.code === 'version_not_found') return null;
    throw error;
  }
}

async function holdsOf(
  { temporal, ledger, blobs }: Rollouts,
  versions: Version[],
  rules: RetentionRules,
  now: Date,
): Promise<Map<string, Hold>> {
  const parts = { ledger, work: openWork(temporal), keeps: createKeepPolicies({ blobs, ledger }) };
  const facts = await gatherFacts(parts, versions);
  return new Map(facts.map((one) => [one.version.id, holdOf(one, rules, now.getTime())]));
}

function described(
  step: number | null,
  id: string,
  version: Version | undefined,
  keptBy: Hold | null,
  now: Date,
): KeptCheckpoint {
  if (!version) {
    const unknown = { bytes: null, createdAt: null, ageS: null, expiresAt: null, keptBy: null };
    return { step, version: id, exists: false, ...unknown };
  }
  const { bytes, createdAt, retainUntil } = version;
  const ageS = Math.max(0, Math.round((now.getTime() - Date.parse(createdAt)) / 1000));
  return {
    step,
    version: id,
    exists: true,
    bytes,
    createdAt,
    ageS,
    expiresAt: retainUntil,
    keptBy,
  };
}
