import { graderKinds } from '../../rollouts/task-facts';
import { BatchRollouts } from '../../contracts/batch';
import type { RegradeInput } from '../../contracts/regrade';
import type { RolloutInput } from '../../contracts/rollout';
import { PackedTask } from '../../contracts/task';
import type { RolloutRow } from '../../stores/ledger';
import { readDocument } from '../../rollouts/documents';
import { currentResult, judgedVersion } from '../../rollouts/verdicts';
import type { Rollouts } from './connect';
import { UserError } from '../errors';
import { readInput } from '../../rollouts/inputs';
import { withVerifier } from './verifier-file';
import type { PackedVerifier } from './verifier-file';

export interface RegradeRequest {
  /** Id of a batch, or of one rollout. */
  target: string;
  onlyUnscored: boolean;
  /** Instead of each task's own. */
  verifier: PackedVerifier | null;
}

/** One of the chosen rollouts. */
export interface Chosen {
  rolloutId: string;
  /** The reward that counts before. */
  before: number | null;
}

export interface RegradePlan {
  batchId: string;
  /** With what a workflow needs to judge them. */
  judged: (Chosen & RegradeInput['rollouts'][number])[];
  /** Those with nothing to judge, or that no verifier gave their reward. `missing`: a snapshot is. */
  left: (Chosen & { why: string; missing: boolean })[];
}

/**
 * Which rollouts can be judged again, and on what; packs tasks with another verifier into the blob store, starts nothing. Of a
 * batch those that it declared: a continuation is named by its own id.
 * @throws UserError when there is no such batch or rollout
 */
export async function planRegrade(
  rollouts: Pick<Rollouts, 'ledger' | 'blobs'>,
  { target, onlyUnscored, verifier }: RegradeRequest,
): Promise<RegradePlan> {
  const { batchId, rows, inputs } = await chosenRows(rollouts, target);
  const plan: RegradePlan = { batchId, judged: [], left: [] };
  const tasks = new Map<string, Promise<JudgingTask>>();
  for (const row of rows) {
    const { rolloutId } = row;
    const before = currentResult(row)?.reward ?? null;
    if (onlyUnscored && before !== null) continue;
    const taskRef = inputs.get(rolloutId)?.taskRef;
    if (taskRef === undefined) throw new UserError(`batch ${batchId} has no input of ${rolloutId}`);
    const task = tasks.get(taskRef) ?? judgingTask(rollouts, taskRef, verifier);
    tasks.set(taskRef, task);
    const why = whyNot(row, await task);
    const version = judgedVersion(row.result) ?? '';
    if (why !== null) plan.left.push({ rolloutId, before, ...why });
    else plan.judged.push({ rolloutId, before, version, taskRef: (await task).taskRef });
  }
  return plan;
}

async function chosenRows(
  rollouts: Pick<Rollouts, 'ledger' | 'blobs'>,
  target: string,
): Promise<{ batchId: string; rows: RolloutRow[]; inputs: Map<string, RolloutInput> }> {
  const { ledger, blobs } = rollouts;
  const row = await ledger.rollout(target);
  if (row) {
    const input = await readInput(rollouts, target);
    return { batchId: row.batchId, rows: [row], inputs: new Map([[target, input]]) };
  }
  const batch = await ledger.batch(target);
  if (!batch) throw new UserError(`there is no batch or rollout ${target}; see: rollouts list`);
  const inputs = await readDocument(blobs, BatchRollouts, batch.rolloutsRef);
  const rows = await ledger.rollouts({ batchId: target });
  return {
    batchId: target,
    rows: rows.filter(({ parentRolloutId }) => parentRolloutId === null),
    inputs: new Map(inputs.map((input) => [input.rolloutId, input])),
  };
}

interface JudgingTask {
  taskRef: string;
  graders: ReturnType<typeof graderKinds>;
}

async function judgingTask(
  { blobs }: Pick<Rollouts, 'blobs'>,
  taskRef: string,
  verifier: PackedVerifier | null,
): Promise<JudgingTask> {
  const packed = await readDocument(blobs, PackedTask, taskRef);
  const graders = graderKinds(packed.task);
  if (!verifier) return { taskRef, graders };
  const judging = withVerifier(packed, verifier);
  const { ref } = await blobs.put(Buffer.from(JSON.stringify(judging)));
  return { taskRef: ref, graders };
}

function whyNot(
  { result, rolloutId }: RolloutRow,
  { graders }: JudgingTask,
): { why: string; missing: boolean } | null {
  if (!result) return { why: 'it has not ended', missing: false };
  if (!graders.includes('verify')) {
    const why = graders.includes('hud')
      ? 'its reward is the grade of its HUD environment, which cannot be asked again'
      : 'no verifier gave its reward, only graders that ran when it ended';
    return { why, missing: false };
  }
  if (judgedVersion(result) !== null) return null;
  const why = `it has no final snapshot: it ended before a verifier judged one; see: rollouts show ${rolloutId}`;
  return { why, missing: true };
}
