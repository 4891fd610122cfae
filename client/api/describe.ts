import { z } from 'zod';
import { readDocument } from '../../rollouts/documents';
import { HudEnvironment, VerifyEvidence } from '../../contracts/denv';
import type { Sandbox } from '../../contracts/denv';
import type {
  GradeResult,
  RolloutResult,
  RolloutStatus,
  VerdictResult,
} from '../../contracts/rollout';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { BlobStore } from '../../stores/blobs';
import type { DeclaredRollout, RegradeRow } from '../../stores/ledger';
import { connect, openRecords } from './connect';
import type { Records, Rollouts } from './connect';
import { currentResult } from '../../rollouts/verdicts';
import { StackDownError, UserError } from '../errors';
import { readRolloutStatus } from './rollouts';
import type { Settings } from '../settings';
import { NoAnswerError } from '../../temporal/states';
import type { ChosenWay } from '../../rollouts/ways';
import { readLineage } from './lineage';
import type { Origin } from './lineage';
import { readEntries } from '../../rollouts/trajectory/chain';

/** Everything that is known about one rollout. */
export interface RolloutDescription {
  rollout: DeclaredRollout;
  /** Null once it has a result, and when nobody answers. */
  status: RolloutStatus | null;
  /** As it was recorded at its end. */
  result: RolloutResult | null;
  /** Verdicts that were given later; the current one is marked. */
  regrades: RegradeRow[];
  trajectory: TrajectoryEntry[];
  verdicts: (VerdictResult & { evidence: VerifyEvidence | null })[];
  /** The evidence is what its grader left: a HUD frame, a command's output, a judge's answers. */
  grades: (GradeResult & { evidence: unknown })[];
  /** Where it was forked from; null where it began by itself. */
  origin: Origin | null;
  /** How its forks are continued; null where its input is not kept. */
  goesOn: ChosenWay | null;
  continuations: {
    rolloutId: string;
    step: number | null;
    outcome: string | null;
    reward: number | null;
  }[];
  sandbox: { id: string; state: Sandbox['state'] | 'not known' } | null;
  /** How the HUD environment in it described itself; null where there is none, or nobody knows any more. */
  hud: HudEnvironment | null;
  /** Its page in Temporal's UI, where that is known. */
  temporalPage: string | null;
}

/**
 * Reads a rollout from the ledger and the blob store, and asks the stack for what only it knows. Works without a stack, and
 * then knows less.
 * @throws UserError when there is no such rollout
 */
export async function describeRollout(
  settings: Settings,
  rolloutId: string,
): Promise<RolloutDescription> {
  const rollouts = await connectOrNull(settings);
  const records = rollouts ?? (await openRecords(settings));
  try {
    return await describe(records, rollouts, rolloutId);
  } finally {
    await records.close();
  }
}

async function connectOrNull(settings: Settings): Promise<Rollouts | null> {
  try {
    return await connect(settings);
  } catch (error) {
    if (error instanceof StackDownError) return null;
    throw error;
  }
}

async function describe(
  { ledger, blobs, documents }: Records,
  rollouts: Rollouts | null,
  rolloutId: string,
): Promise<RolloutDescription> {
  const row = await ledger.rollout(rolloutId);
  if (!row) throw new UserError(`there is no rollout ${rolloutId}; see: rollouts list`);
  const { result, regraded: _current, ...rollout } = row;
  const status = result || !rollouts ? null : await statusIfAnswered(rollouts, rolloutId);
  const children = await ledger.rollouts({ parentRolloutId: rolloutId });
  const trajectory = await readEntries(documents, result?.trajectory ?? status?.trajectory ?? '');
  const sandboxId = result?.sandboxId ?? status?.sandboxId ?? '';
  const { hud, ...sandbox } = await readSandbox(rollouts, sandboxId);
  return {
    rollout,
    status,
    result,
    trajectory,
    ...(await readLineage({ ledger, blobs, documents }, rolloutId, trajectory)),
    regrades: await ledger.regrades({ rolloutId }),
    verdicts: await withEvidence(blobs, result?.verdicts ?? []),
    grades: await Promise.all(
      (result?.grades ?? []).map((grade) => gradeWithEvidence(blobs, grade)),
    ),
    continuations: children.map((child) => {
      const { outcome = null, reward = null } = currentResult(child) ?? {};
      return { rolloutId: child.rolloutId, step: child.parentStep, outcome, reward };
    }),
    sandbox: sandboxId === '' ? null : sandbox,
    hud,
    temporalPage: rollouts?.temporalUi
      ? `${rollouts.temporalUi}/namespaces/${rollouts.namespace}/workflows/${encodeURIComponent(rolloutId)}`
      : null,
  };
}

/** A worker answers queries, and there may be none. */
async function statusIfAnswered(
  rollouts: Rollouts,
  rolloutId: string,
): Promise<RolloutStatus | null> {
  try {
    return await readRolloutStatus(rollouts, rolloutId, 5000);
  } catch (error) {
    if (error instanceof NoAnswerError) return null;
    throw error;
  }
}

async function withEvidence(blobs: BlobStore, verdicts: VerdictResult[]) {
  return Promise.all(
    verdicts.map(async (verdict) => {
      if (verdict.evidenceRef === '') return { ...verdict, evidence: null };
      const evidence = await readDocument(blobs, VerifyEvidence, verdict.evidenceRef);
      return { ...verdict, evidence };
    }),
  );
}

async function gradeWithEvidence(blobs: BlobStore, grade: GradeResult) {
  if (grade.evidenceRef === '') return { ...grade, evidence: null };
  return { ...grade, evidence: await readDocument(blobs, z.unknown(), grade.evidenceRef) };
}

interface KnownSandbox {
  id: string;
  state: Sandbox['state'] | 'not known';
  hud: HudEnvironment | null;
}

async function readSandbox(rollouts: Rollouts | null, id: string): Promise<KnownSandbox> {
  if (!rollouts || id === '') return { id, state: 'not known', hud: null };
  try {
    const { state, controller } = await rollouts.denv.getSandbox(id);
    return { id, state, hud: controller.hud ?? null };
  } catch (error) {
    const code: unknown = Reflect.get(Object(error), 'code');
    return code === 'sandbox_not_found' || code === 'sandbox_gone'
      ? { id, state: 'deleted', hud: await recordedHud(rollouts, id) }
      : { id, state: 'not known', hud: null };
  }
}

/** The deployment record outlives its sandbox. */
async function recordedHud({ denv }: Rollouts, id: string): Promise<HudEnvironment | null> {
  try {
    const { entries } = await denv.record(id);
    const found = entries.find(({ data }) => data['hud'] !== undefined)?.data['hud'];
    return HudEnvironment.safeParse(found).data ?? null;
  } catch {
    return null;
  }
}
