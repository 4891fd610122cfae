import { regradeFactsOf } from '../../activities/regrade';
import { RegradeInput } from '../../contracts/regrade';
import type { RolloutResult } from '../../contracts/rollout';
import { PackedTask } from '../../contracts/task';
import type { RegradeRow } from '../../stores/ledger';
import { rewardBy } from '../../workflows/regrade';
import { findDocument, readDocument } from '../../rollouts/documents';
import { readWorkflowState } from '../../temporal/states';
import type { Rollouts } from '../api/connect';
import type { Finding } from './finding';
import { laterVerdict, verdictFrom } from './records';

type Item = RegradeInput['rollouts'][number];
type Rebuilt = Omit<RegradeRow, 'current'>;

/**
 * Later verdicts that the ledger lacks: the blob store has what each regrade was to judge, the denv server's records what its
 * verifiers said. With `repair` they are recorded again, in the order in which they were given.
 */
export async function missingRegrades(rollouts: Rollouts, repair: boolean): Promise<Finding[]> {
  const found: Rebuilt[] = [];
  for (const name of await rollouts.blobs.list('regrades/')) {
    const input = await findDocument(rollouts.blobs, RegradeInput, name);
    if (input === null) continue;
    const rows = await rollouts.ledger.regrades({ regradeId: input.regradeId });
    const known = new Set(rows.map(({ rolloutId }) => rolloutId));
    const lacking = input.rollouts.filter(({ rolloutId }) => !known.has(rolloutId));
    if (lacking.length === 0 || (await isRunning(rollouts, input.regradeId))) continue;
    for (const item of lacking) {
      const rebuilt = await rebuild(rollouts, input.regradeId, item);
      if (rebuilt) found.push(rebuilt);
    }
  }
  found.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const findings: Finding[] = [];
  for (const rebuilt of found) {
    if (repair) await rollouts.ledger.recordRegrade(rebuilt);
    findings.push({
      rolloutId: rebuilt.rolloutId,
      what: `has a verdict of ${rebuilt.regradeId} that is not in the ledger`,
      repaired: repair ? `recorded: reward ${rebuilt.reward}` : null,
    });
  }
  return findings;
}

/** Null where no verdict was given: a snapshot that was gone, a regrade that was stopped. */
async function rebuild(
  rollouts: Rollouts,
  regradeId: string,
  { rolloutId, version, taskRef }: Item,
): Promise<Rebuilt | null> {
  const result: RolloutResult | null = (await rollouts.ledger.rollout(rolloutId))?.result ?? null;
  if (!result) return null;
  const prefix = `${regradeId}/${rolloutId}/verify/`;
  const recorded = await laterVerdict(rollouts.denv, result.sandboxId, prefix);
  if (!recorded) return null;
  const packed = await readDocument(rollouts.blobs, PackedTask, taskRef);
  const facts = regradeFactsOf(packed, result);
  const verdict = await verdictFrom(recorded, rollouts.blobs);
  const { verifierDigest } = facts;
  const { at } = recorded;
  return { regradeId, rolloutId, version, ...rewardBy(facts, verdict), verifierDigest, at };
}

async function isRunning(rollouts: Rollouts, regradeId: string): Promise<boolean> {
  return (await readWorkflowState(rollouts.temporal, regradeId)) === 'RUNNING';
}
