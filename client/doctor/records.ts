import { VerifyReply } from '../../contracts/denv';
import type { VerdictResult } from '../../contracts/rollout';
import type { DenvClient } from '../../denv/client';
import { DenvError } from '../../denv/errors';
import { forkChildKey, sandboxIdOf } from '../../denv/ids';
import type { BlobStore } from '../../stores/blobs';
import { createKey, restoreKey } from '../../workflows/rollout/keys';

export interface RecordedVerdict {
  sandboxId: string;
  attempt: number;
  at: string;
  key: string;
  reply: VerifyReply;
}

/** More attempts than limits allow, so that none is passed over. */
const maxAttempts = 10;

/**
 * The verdict on a rollout's submission as the denv server's own records have it, which outlive the sandbox: of the last
 * attempt that got one. Null when no record has any.
 */
export async function recordedVerdict(
  denv: DenvClient,
  rolloutId: string,
): Promise<RecordedVerdict | null> {
  let found: RecordedVerdict | null = null;
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const sandboxes = await sandboxesOf(denv, rolloutId, attempt);
    if (sandboxes.length === 0) break;
    for (const { sandboxId, entries } of sandboxes) {
      for (const { at, event, data } of entries) {
        const key: unknown = data['key'];
        // A later verdict is no part of what a rollout ended with.
        const own = typeof key === 'string' && key.startsWith(`${rolloutId}/`);
        if (event !== 'verified' || !own || key.endsWith('/verify/start')) continue;
        const reply = VerifyReply.safeParse(data);
        if (!reply.success || reply.data.verdict === 'none') continue;
        found = { sandboxId, attempt, at, key, reply: reply.data };
      }
    }
  }
  return found;
}

/** A verdict given later on what a sandbox left: the last one under keys of a regrade. Null when there is none. */
export async function laterVerdict(
  denv: DenvClient,
  sandboxId: string,
  keyPrefix: string,
): Promise<Omit<RecordedVerdict, 'attempt'> | null> {
  const record = await recordOf(denv, sandboxId);
  let found: Omit<RecordedVerdict, 'attempt'> | null = null;
  for (const { at, event, data } of record?.entries ?? []) {
    const key: unknown = data['key'];
    if (event !== 'verified' || typeof key !== 'string' || !key.startsWith(keyPrefix)) continue;
    const reply = VerifyReply.safeParse(data);
    if (!reply.success || reply.data.verdict === 'none') continue;
    found = { sandboxId, at, key, reply: reply.data };
  }
  return found;
}

/** Ids are made from keys and keys from meaning, so a rollout's sandboxes are found without anybody having noted them. */
async function sandboxesOf(denv: DenvClient, rolloutId: string, attempt: number) {
  const found = [];
  const place = (restores: number) => ({ rolloutId, attempt, restores });
  const first = [createKey(place(0)), forkChildKey(createKey(place(0)), 0)];
  for (const key of first) {
    const record = await recordOf(denv, sandboxIdOf(key));
    if (record) found.push(record);
  }
  for (let restores = 0; found.length > 0; restores++) {
    const record = await recordOf(denv, sandboxIdOf(forkChildKey(restoreKey(place(restores)), 0)));
    if (!record) break;
    found.push(record);
  }
  return found;
}

async function recordOf(denv: DenvClient, sandboxId: string) {
  try {
    const { entries } = await denv.record(sandboxId);
    return entries.length === 0 ? null : { sandboxId, entries };
  } catch (error) {
    // Gone: it was deleted before it was ever made.
    const never = ['sandbox_not_found', 'sandbox_gone'];
    if (error instanceof DenvError && never.includes(error.code)) return null;
    throw error;
  }
}

/** The verdict in the form that results have; its evidence goes into the blob store. */
export async function verdictFrom(
  { key, reply }: Pick<RecordedVerdict, 'key' | 'reply'>,
  blobs: BlobStore,
): Promise<VerdictResult> {
  const { ref } = await blobs.put(Buffer.from(JSON.stringify(reply.evidence)));
  return {
    key,
    of: 'submission',
    version: reply.version,
    verdict: reply.verdict,
    reward: reply.reward,
    rewards: reply.rewards,
    evidenceRef: ref,
    summary: `${reply.verdict === 'refused' ? 'submission refused' : `reward ${reply.reward}`}, from the denv record`,
  };
}
