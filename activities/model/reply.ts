import { PackedTask } from '../../contracts/task';
import type { ModelReply, ToolCall, TrajectoryEntry } from '../../contracts/trajectory';
import { askOnce, reissuedOf } from './ask';
import type { AskInput } from './ask';
import { checkpointTools } from '../checkpoint-tools';
import { toMs } from '../../rollouts/documents';
import { Opening } from './hud-prompt';
import type { Parts } from '../support/parts';
import { messagesOf } from './prompt';
import { AgentContext } from '../support/agent-context';
import { appendEntries, readEntries } from '../../rollouts/trajectory/chain';
import { readPending } from '../trajectory';
import type { PendingEntry } from '../trajectory';

export interface CallModelInput extends AskInput {
  step: number;
  /** Blob ref of the AgentContext. */
  agentRef: string;
  /** Head of the trajectory so far, empty at the start, and what comes after it. */
  head: string;
  pending: PendingEntry[];
}

export interface ModelTurn {
  /** Head of the trajectory: without the reply when that calls tools, since more of the step is to come. */
  head: string;
  /** Names of the tools it calls, at most `maxCalls`. */
  tools: string[];
  /** Of tool calls past those, which are not made. */
  surplus?: number;
  /** Places of the calls that are ours to make, where the agent is offered `checkpoint` and `rollback`. */
  ours?: number[];
  /** A tool call without id or name: nothing could be shown for it. */
  malformed?: true;
  finishReason: ModelReply['finishReason'];
  /** Prompt and completion. */
  tokens: [number, number];
  costUsd: number | null;
  durationS: number;
  /** Earlier HTTP requests for this reply that nobody got an answer of, if any. */
  reissued?: number;
  /** Where it came with token ids: whether its prompt begins with all of the reply before. */
  ids?: 'extend' | 'broken';
}

/** Tool calls of one reply that are made; the others get an observation that says so. */
const maxCalls = 128;

/**
 * Writes what is pending to the trajectory and gets the model's next reply to it. The reply is recorded before it is acted
 * on, and a recorded reply is never asked for again. Renews the sandbox's lease meanwhile. Idempotent by `key`.
 * @throws ModelError (retryable while `waitS` lasts: ModelUnavailable, ModelRateLimited; final: ModelUnauthorized,
 *   ModelRequestInvalid, ContextOverflow, ModelRefused), RunTimeout (final)
 */
export async function callModel(
  parts: Parts,
  input: CallModelInput,
  signal: AbortSignal,
): Promise<ModelTurn> {
  const { documents } = parts;
  const context = await documents.get(AgentContext, input.agentRef);
  const opening = input.head === '' ? await openingOf(parts, context) : [];
  const fresh = [...opening, ...(await readPending(documents, input.pending))];
  const [before, earlier] = await Promise.all([
    appendEntries(documents, input.head, fresh),
    readEntries(documents, input.head),
  ]);
  const entries = [...earlier, ...fresh];
  const reply = await askOnce(parts, input, () => requestOf(parts, context, entries), signal);
  const said: TrajectoryEntry = { type: 'reply', step: input.step, reply };
  const head = reply.toolCalls.length > 0 ? before : await appendEntries(documents, before, [said]);
  const reissued = await reissuedOf(parts, input.key);
  const ids = checkIds(entries, reply);
  return {
    head,
    ...turnOf(reply, context),
    ...(reissued > 0 ? { reissued } : {}),
    ...(ids ? { ids } : {}),
  };
}

async function requestOf(
  { blobs }: Parts,
  { model, tools }: AgentContext,
  entries: TrajectoryEntry[],
) {
  return {
    model,
    messages: await messagesOf(blobs, entries),
    tools: tools.map(({ name, description = '', inputSchema }) => ({
      name,
      description,
      inputSchema,
    })),
  };
}

async function openingOf({ documents }: Parts, context: AgentContext): Promise<TrajectoryEntry[]> {
  const { systemPrompt } = context.model.settings;
  const system: TrajectoryEntry[] =
    systemPrompt === undefined ? [] : [{ type: 'system', text: systemPrompt }];
  if (context.promptRef !== undefined) {
    const { entries } = await documents.get(Opening, context.promptRef);
    return [...system, ...entries];
  }
  const { task } = await documents.get(PackedTask, context.taskRef);
  return [...system, { type: 'prompt', text: task.prompt ?? '' }];
}

/** Of a reply, what a rollout decides by. What is as usual is left out: every field is kept in a history. */
function turnOf(
  { toolCalls, finishReason, usage, durationS }: ModelReply,
  context: AgentContext,
): Omit<ModelTurn, 'head'> {
  const surplus = toolCalls.length - maxCalls;
  const ours = context.checkpointTools ? oursAmong(toolCalls.slice(0, maxCalls)) : [];
  const malformed = toolCalls.some((call) => call.id === '' || call.name === '');
  return {
    tools: toolCalls.slice(0, maxCalls).map((call) => call.name.slice(0, 64)),
    ...(surplus > 0 ? { surplus } : {}),
    ...(ours.length > 0 ? { ours } : {}),
    ...(malformed ? { malformed: true } : {}),
    finishReason,
    tokens: [usage.promptTokens, usage.completionTokens],
    costUsd: usage.costUsd,
    durationS: toMs(durationS),
  };
}

function oursAmong(toolCalls: ToolCall[]): number[] {
  const own = new Set(checkpointTools.map(({ name }) => name));
  return toolCalls.flatMap((call, index) => (own.has(call.name) ? [index] : []));
}

/**
 * Checks whether a reply's prompt begins with the prompt and the answer of the reply before, token by token: only then are the two
 * one sequence that a model can be trained on. Undefined for a reply without token ids. The first reply has nothing to extend; one
 * that follows a reply without ids does not extend it.
 */
export function checkIds(
  before: TrajectoryEntry[],
  { promptTokenIds, tokenIds }: ModelReply,
): 'extend' | 'broken' | undefined {
  if (!promptTokenIds || !tokenIds) return undefined;
  const last = before.findLast((entry) => entry.type === 'reply')?.reply;
  if (!last) return 'extend';
  if (!last.promptTokenIds || !last.tokenIds) return 'broken';
  const ids = [...last.promptTokenIds, ...last.tokenIds];
  return ids.every((id, index) => promptTokenIds[index] === id) ? 'extend' : 'broken';
}
