import { createHash } from 'node:crypto';
import type { ScriptedPolicy, ScriptedReply } from './script';

export interface Conversation {
  seed: number;
  /** Every message so far, as the model sees it. */
  said: string[];
  /** What came after the model's last words: observations, or the prompt. */
  seen: string;
}

/**
 * The reply of a stochastic policy: the first state whose `seen` is in what was shown last, and of its choices one by weight. The
 * draw is a hash of the seed and of the whole conversation, so the same request gets the same reply, and a conversation that
 * forked takes another course with another seed. Null when no state matches.
 */
export function drawReply(
  policy: ScriptedPolicy,
  conversation: Conversation,
): ScriptedReply | null {
  const state = policy.find(({ seen }) => conversation.seen.includes(seen));
  if (!state) return null;
  const total = state.choices.reduce((sum, { weight }) => sum + weight, 0);
  let left = drawn(conversation) * total;
  for (const { weight, reply } of state.choices) {
    left -= weight;
    if (left < 0) return reply;
  }
  return state.choices.at(-1)?.reply ?? null;
}

/** Uniform in [0, 1). */
function drawn({ seed, said }: Conversation): number {
  const digest = createHash('sha256')
    .update([String(seed), ...said].join('\0'))
    .digest();
  return digest.readUInt32BE(0) / 2 ** 32;
}
