import { randomUUID } from 'node:crypto';
import { Context } from '@temporalio/activity';
import { PackedTask } from '../contracts/task';
import { ModelReply } from '../contracts/trajectory';
import type { ToolCall, TrajectoryEntry } from '../contracts/trajectory';
import { ModelError } from '../models/model';
import { replyName, sha256, toMs } from './documents';
import { renewing } from './heartbeat';
import { withinWait } from './model-wait';
import type { Parts } from './parts';
import { messagesOf } from './prompt';
import { AgentContext } from './tools';
import { append, entriesOf, load } from './trajectory';
import type { PendingEntry } from './trajectory';

export interface CallModelInput {
  key: string;
  step: number;
  /** Blob ref of the AgentContext. */
  agentRef: string;
  /** Head of the trajectory so far, empty at the start, and what comes after it. */
  head: string;
  pending: PendingEntry[];
  /** Of one request. */
  timeoutS: number;
  /** How long the endpoint may be away or refuse to serve, over all tries. */
  waitS: number;
  /** Whose lease to renew while the model thinks. */
  sandboxId: string;
  leaseS: number;
}

export interface ModelTurn {
  /** Head of the trajectory: without the reply when that calls tools, since more of the step is to come. */
  head: string;
  /** Names of the tools it calls, at most `maxCalls`. */
  tools: string[];
  /** Of tool calls past those, which are not made. */
  surplus?: number;
  /** Every tool called says that it only reads. */
  readOnly?: true;
  /** A tool call without id or name: nothing could be shown for it. */
  malformed?: true;
  finishReason: ModelReply['finishReason'];
  /** Prompt and completion. */
  tokens: [number, number];
  costUsd: number | null;
  durationS: number;
  /** Earlier HTTP requests for this reply that nobody got an answer of, if any. */
  reissued?: number;
}

/** Tool calls of one reply that are made; the others get an observation that says so. */
const maxCalls = 128;

/**
 * Writes what is pending to the trajectory and gets the model's next reply to it. The reply is recorded before it is acted
 * on, and a recorded reply is never asked for again. Renews the sandbox's lease meanwhile. Idempotent by `key`.
 * @throws ModelError (retryable while `waitS` lasts: ModelUnavailable, ModelRateLimited; final: ModelUnauthorized,
 *   ModelRequestInvalid, ContextOverflow, ModelRefused)
 */
export async function callModel(
  parts: Parts,
  input: CallModelInput,
  signal: AbortSignal,
): Promise<ModelTurn> {
  const { documents } = parts;
  const context = await documents.get(AgentContext, input.agentRef);
  const opening = input.head === '' ? await openingOf(parts, context) : [];
  const fresh = [...opening, ...(await entriesOf(documents, input.pending))];
  const [before, earlier] = await Promise.all([
    append(documents, input.head, fresh),
    load(documents, input.head),
  ]);
  const reply = await askOnce(parts, input, [...earlier, ...fresh], context, signal);
  const said: TrajectoryEntry = { type: 'reply', step: input.step, reply };
  const head = reply.toolCalls.length > 0 ? before : await append(documents, before, [said]);
  const reissued = await reissuedOf(parts, input.key);
  return { head, ...turnOf(reply, context), ...(reissued > 0 ? { reissued } : {}) };
}

/** The reply of a key: the recorded one, or asked for now and recorded. The first recorded one wins. */
async function askOnce(
  { denv, models, blobs, documents }: Parts,
  input: CallModelInput,
  entries: TrajectoryEntry[],
  context: AgentContext,
  signal: AbortSignal,
): Promise<ModelReply> {
  const recorded = await documents.find(ModelReply, replyName(input.key));
  if (recorded) return recorded;
  const ask = `${asksOf(input.key)}${Context.current().info.attempt}-${randomUUID().slice(0, 8)}`;
  const [messages] = await Promise.all([
    messagesOf(blobs, entries),
    blobs.putIfAbsent(ask, Buffer.from('{}')),
  ]);
  const stopRenewing = renewing(denv, input);
  let reply: ModelReply;
  try {
    const { model } = context;
    const tools = context.tools.map(({ name, description = '', inputSchema }) => ({
      name,
      description,
      inputSchema,
    }));
    const request = { key: input.key, model, messages, tools, timeoutS: input.timeoutS };
    reply = await withinWait(input.waitS, signal, async (within) => {
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
async function reissuedOf({ blobs }: Parts, key: string): Promise<number> {
  // A first try has no earlier ones.
  if (Context.current().info.attempt === 1) return 0;
  const names = await blobs.list(asksOf(key));
  const answered = names.filter((name) => name.endsWith('.answered')).length;
  return Math.max(0, names.length - 2 * answered - 1);
}

const asksOf = (key: string): string => `asks/${sha256(key)}/`;

async function openingOf({ documents }: Parts, context: AgentContext): Promise<TrajectoryEntry[]> {
  const { task } = await documents.get(PackedTask, context.taskRef);
  const { systemPrompt } = context.model.settings;
  const prompt: TrajectoryEntry = { type: 'prompt', text: task.prompt ?? '' };
  return systemPrompt === undefined ? [prompt] : [{ type: 'system', text: systemPrompt }, prompt];
}

/** Of a reply, what a rollout decides by. What is as usual is left out: every field is kept in a history. */
function turnOf(
  { toolCalls, finishReason, usage, durationS }: ModelReply,
  context: AgentContext,
): Omit<ModelTurn, 'head'> {
  const surplus = toolCalls.length - maxCalls;
  const malformed = toolCalls.some((call) => call.id === '' || call.name === '');
  return {
    tools: toolCalls.slice(0, maxCalls).map((call) => call.name.slice(0, 64)),
    ...(surplus > 0 ? { surplus } : {}),
    ...(onlyReads(toolCalls, context) ? { readOnly: true } : {}),
    ...(malformed ? { malformed: true } : {}),
    finishReason,
    tokens: [usage.promptTokens, usage.completionTokens],
    costUsd: usage.costUsd,
    durationS: toMs(durationS),
  };
}

function onlyReads(toolCalls: ToolCall[], { tools }: AgentContext): boolean {
  const reading = new Set(
    tools.filter((tool) => tool.annotations?.readOnlyHint === true).map((tool) => tool.name),
  );
  return toolCalls.every((call) => reading.has(call.name));
}
