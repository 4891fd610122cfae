import { randomUUID } from 'node:crypto';
import { Context } from '@temporalio/activity';
import { ModelReply } from '../../contracts/trajectory';
import { ModelError } from '../../models/model';
import type { ModelRequest } from '../../models/model';
import { replyName, sha256 } from '../../rollouts/documents';
import { renewing } from '../support/heartbeat';
import { withinWait } from './wait';
import type { Parts } from '../support/parts';

export interface AskInput {
  key: string;
  /** Of one request. */
  timeoutS: number;
  /** How long the endpoint may be away or refuse to serve, over all tries. */
  waitS: number;
  /** Whose lease to renew while the model thinks. */
  sandboxId: string;
  leaseS: number;
  /** Wall-clock time at which the whole run is over, in milliseconds, where it has a limit. */
  runEndsAtMs?: number;
}

/**
 * The reply of a key: the recorded one, or asked for now and recorded. The first recorded one wins.
 * @throws ModelError, FoundError RunTimeout
 */
export async function askOnce(
  { denv, models, blobs, documents }: Parts,
  input: AskInput,
  requestOf: () => Promise<Omit<ModelRequest, 'key' | 'timeoutS'>>,
  signal: AbortSignal,
): Promise<ModelReply> {
  const recorded = await documents.find(ModelReply, replyName(input.key));
  if (recorded) return recorded;
  const ask = `${asksOf(input.key)}${Context.current().info.attempt}-${randomUUID().slice(0, 8)}`;
  const [asked] = await Promise.all([requestOf(), blobs.putIfAbsent(ask, Buffer.from('{}'))]);
  const stopRenewing = renewing(denv, input);
  let reply: ModelReply;
  try {
    const request = { key: input.key, ...asked, timeoutS: input.timeoutS };
    reply = await withinWait(input, signal, async (within) => {
      try {
        return await models.complete(request, { signal: within });
      } catch (error) {
        if (error instanceof ModelError && error.answered) {
          await blobs.putIfAbsent(`${ask}.answered`, Buffer.from('{}'));
        }
        throw error;
      }
    });
  } finally {
    stopRenewing();
  }
  const kept = await blobs.putIfAbsent(replyName(input.key), Buffer.from(JSON.stringify(reply)));
  return kept.won ? reply : ModelReply.parse(JSON.parse(kept.data.toString('utf8')));
}

/** Requests whose answer nobody got: all that went out, but for those answered by an error and the one that counts. */
export async function reissuedOf({ blobs }: Parts, key: string): Promise<number> {
  // A first try has no earlier ones.
  if (Context.current().info.attempt === 1) return 0;
  const names = await blobs.list(asksOf(key));
  const answered = names.filter((name) => name.endsWith('.answered')).length;
  return Math.max(0, names.length - 2 * answered - 1);
}

const asksOf = (key: string): string => `asks/${sha256(key)}/`;
