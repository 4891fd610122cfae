import { z } from 'zod';
import { RolloutInput } from '../contracts/rollout';
import type { BlobStore } from '../stores/blobs';
import type { Ledger } from '../stores/ledger';
import { findDocument, readDocument } from './documents';
import { RolloutError } from './errors';

/** The name under which the blob store keeps the input of a continuation. All such names begin with `inputName('')`. */
export const inputName = (rolloutId: string): string => `inputs/${rolloutId}`;

/** Finds the input of a continuation; null for a rollout that a batch declared, and for one that nobody recorded. */
export function findContinuationInput(
  blobs: BlobStore,
  rolloutId: string,
): Promise<RolloutInput | null> {
  return findDocument(blobs, RolloutInput, inputName(rolloutId));
}

interface BatchStores {
  blobs: BlobStore;
  ledger: Pick<Ledger, 'batch'>;
}

/**
 * Reads what a rollout was started with.
 * @throws RolloutError not_found when no rollout of that id is recorded
 */
export async function readInput(
  { blobs, ledger }: BatchStores & { ledger: Pick<Ledger, 'rollout'> },
  rolloutId: string,
): Promise<RolloutInput> {
  const own = await findContinuationInput(blobs, rolloutId);
  if (own) return own;
  const row = await ledger.rollout(rolloutId);
  const inputs = row && (await findBatchInputs({ blobs, ledger }, row.batchId, RolloutInput));
  if (!inputs) {
    throw new RolloutError('not_found', `there is no rollout ${rolloutId}; see: rollouts list`);
  }
  const found = inputs.find((input) => input.rolloutId === rolloutId);
  if (found) return found;
  throw new RolloutError('not_found', `batch ${row.batchId} has no input of ${rolloutId}`);
}

/**
 * Finds the inputs that are stored in one document with a rollout's: a continuation's alone, or those of the whole batch.
 * @param schema  of one input: what the caller needs of it
 * @returns null when the ledger does not know the batch
 */
export async function findInputsBeside<S extends z.ZodType>(
  stores: BatchStores,
  { rolloutId, batchId }: { rolloutId: string; batchId: string },
  schema: S,
): Promise<z.output<S>[] | null> {
  const own = await findDocument(stores.blobs, schema, inputName(rolloutId));
  return own === null ? findBatchInputs(stores, batchId, schema) : [own];
}

async function findBatchInputs<S extends z.ZodType>(
  { blobs, ledger }: BatchStores,
  batchId: string,
  schema: S,
): Promise<z.output<S>[] | null> {
  const batch = await ledger.batch(batchId);
  return batch && readDocument(blobs, z.array(schema), batch.rolloutsRef);
}
