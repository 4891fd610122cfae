import { z } from 'zod';
import { lostResult } from '../../rollouts/empty-result';
import { BatchRollouts } from '../../contracts/batch';
import { RolloutInput, RolloutResult } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import type { RolloutRow } from '../../stores/ledger';
import type { Rollouts } from '../api/connect';
import { inputName, readInput } from '../../rollouts/inputs';
import { findDocument, readDocument } from '../../rollouts/documents';
import { toDeclared } from '../../stores/ledger';
import { nullIfGone, readWorkflowState } from '../../temporal/states';
import { batchName, batchWorkflowId, handle } from '../api/rollouts';
import type { Finding } from './finding';
import { recordedVerdict, verdictFrom } from './records';
import { missingRegrades } from './regrades';

const BatchRowText = z.object({
  batchId: z.string(),
  taskset: z.string(),
  declared: z.number(),
  rolloutsRef: z.string(),
  createdAt: z.string(),
});

/**
 * Compares the ledger with what the blob store, Temporal and the denv server have, and with `repair` adds what is missing. A
 * result that is there is never changed.
 */
export async function examineLedger(rollouts: Rollouts, repair: boolean): Promise<Finding[]> {
  return [
    ...(await missingDeclarations(rollouts, repair)),
    ...(await missingResults(rollouts, repair)),
    ...(await missingRegrades(rollouts, repair)),
    ...(await differingRewards(rollouts)),
  ];
}

/** Batches and continuations that the blob store names and the ledger does not: a ledger that was lost. */
async function missingDeclarations(rollouts: Rollouts, repair: boolean): Promise<Finding[]> {
  const { ledger, blobs } = rollouts;
  const findings: Finding[] = [];
  for (const name of await blobs.list(batchName(''))) {
    const batch = await findDocument(blobs, BatchRowText, name);
    if (batch === null || (await ledger.batch(batch.batchId))) continue;
    const inputs = await readDocument(blobs, BatchRollouts, batch.rolloutsRef);
    if (repair) await ledger.declareBatch(batch, inputs.map(toDeclared));
    findings.push({
      rolloutId: `batch ${batch.batchId}`,
      what: `its ${inputs.length} rollouts are not in the ledger`,
      repaired: repair ? 'declared again' : null,
    });
  }
  for (const name of await blobs.list(inputName(''))) {
    const input = await findDocument(blobs, RolloutInput, name);
    if (input === null || (await ledger.rollout(input.rolloutId))) continue;
    if (repair) await ledger.declareRollouts([toDeclared(input)]);
    findings.push({
      rolloutId: input.rolloutId,
      what: 'is not in the ledger',
      repaired: repair ? 'declared again' : null,
    });
  }
  return findings;
}

/** Rollouts without a result that do not run: their result is somewhere else, or nowhere. */
async function missingResults(rollouts: Rollouts, repair: boolean): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const row of await rollouts.ledger.rollouts({})) {
    if (row.result) continue;
    const { rolloutId } = row;
    const workflow = await readRolloutWorkflow(rollouts, rolloutId);
    if (workflow.status === 'RUNNING') continue;
    const found = await resultFor(rollouts, row, workflow);
    if (found === null) {
      // A batch that runs has yet to start some of its rollouts.
      const batch = await readWorkflowState(rollouts.temporal, batchWorkflowId(row.batchId));
      if (batch === 'RUNNING') continue;
      const what = 'has no result anywhere: it never started, or was lost; run its batch again';
      findings.push({ rolloutId, what, repaired: null });
      continue;
    }
    if (repair) await rollouts.ledger.recordResult(found.result);
    findings.push({
      rolloutId,
      what: `has no result in the ledger; ${found.source}`,
      repaired: repair ? `recorded: ${found.result.outcome}, reward ${found.result.reward}` : null,
    });
  }
  return findings;
}

interface FoundWorkflow {
  status: string;
  result: RolloutResult | null;
}

async function readRolloutWorkflow(rollouts: Rollouts, rolloutId: string): Promise<FoundWorkflow> {
  const status = await readWorkflowState(rollouts.temporal, rolloutId);
  if (status !== 'COMPLETED') return { status, result: null };
  const result: unknown = await nullIfGone(handle(rollouts, rolloutId).result());
  if (result === null) return { status: 'GONE', result };
  return { status, result: RolloutResult.parse(result) };
}

async function resultFor(
  rollouts: Rollouts,
  row: RolloutRow,
  workflow: FoundWorkflow,
): Promise<{ result: RolloutResult; source: string } | null> {
  if (workflow.result) return { result: workflow.result, source: 'its workflow has it' };
  const input = await readInput(rollouts, row.rolloutId);
  const recorded = await recordedVerdict(rollouts.denv, row.rolloutId);
  const why = `its workflow is ${workflow.status.toLowerCase()}`;
  if (!recorded) {
    if (workflow.status === 'GONE') return null;
    const lost = lostResult(input, why, new Date());
    const result = workflow.status === 'CANCELLED' ? asCancelled(lost) : lost;
    return { result, source: `${why} and left none` };
  }
  const { reward, rewards } = recorded.reply;
  const { sandboxId, attempt } = recorded;
  const result: RolloutResult = {
    ...lostResult(input, why, new Date(recorded.at)),
    outcome: reward === null ? 'unscored' : 'scored',
    reward,
    rewards,
    ...(reward === null ? {} : { failure: null }),
    attempts: [{ attempt, sandboxId, failure: null, stopReason: null }],
    sandboxId,
    verdicts: [await verdictFrom(recorded, rollouts.blobs)],
  };
  return { result, source: `${why}; the record of ${sandboxId} has its verdict` };
}

/** A workflow that was cancelled has told its result to the ledger alone. */
function asCancelled(result: RolloutResult): RolloutResult {
  return {
    ...result,
    stopReason: 'cancelled',
    failure: newFailure('Cancelled', 'ended', 'the rollout was cancelled'),
  };
}

/** Scored rollouts whose sandbox's record says another reward. Never changed: the first recorded result stays. */
async function differingRewards(rollouts: Rollouts): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { rolloutId, result } of await rollouts.ledger.rollouts({})) {
    const own = result?.verdicts.find(({ reward, of }) => of === 'submission' && reward !== null);
    if (!own) continue;
    const recorded = await recordedVerdict(rollouts.denv, rolloutId);
    if (!recorded || recorded.key !== own.key || recorded.reply.reward === own.reward) continue;
    findings.push({
      rolloutId,
      what: `the ledger says reward ${own.reward}, the record of ${recorded.sandboxId} says ${recorded.reply.reward}`,
      repaired: null,
    });
  }
  return findings;
}
