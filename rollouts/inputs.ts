import { BatchRollouts } from '../contracts/batch';
import { RolloutInput } from '../contracts/rollout';
import type { Records } from '../client/api/connect';
import { UserError } from '../client/errors';

/** Where the blob store has the input of a continuation. */
export const inputName = (rolloutId: string): string => `inputs/${rolloutId}`;

/** What a rollout was started with: its batch has it, or, for a continuation, its own entry in the blob store. */
export async function inputOf(
  { blobs, ledger }: Pick<Records, 'blobs' | 'ledger'>,
  rolloutId: string,
): Promise<RolloutInput> {
  const own = await blobs.find(inputName(rolloutId));
  if (own) return RolloutInput.parse(JSON.parse(own.toString()));
  const row = await ledger.rollout(rolloutId);
  const batch = row && (await ledger.batch(row.batchId));
  if (!batch) throw new UserError(`there is no rollout ${rolloutId}; see: rollouts list`);
  const data = await blobs.get(batch.rolloutsRef);
  const found = BatchRollouts.parse(JSON.parse(data.toString())).find(
    (input) => input.rolloutId === rolloutId,
  );
  if (!found) throw new UserError(`batch ${batch.batchId} has no input of ${rolloutId}`);
  return found;
}
