import { createHash } from 'node:crypto';
import { z } from 'zod';
import { drawReply } from './policy';
import type { Script, ScriptedPolicy, ScriptedReply, ScriptEntry } from './script';
import { toLogprobs, promptTokens, replyTokens } from './tokens';

const Part = z.looseObject({ type: z.string(), text: z.string().optional() });
const Message = z.looseObject({
  role: z.string(),
  content: z.union([z.string(), z.array(Part)]).nullish(),
  tool_calls: z
    .array(z.looseObject({ function: z.looseObject({ name: z.string(), arguments: z.string() }) }))
    .nullish(),
});
type Message = z.infer<typeof Message>;

/** The fields of a chat completion request that decide its answer. */
export const ChatRequest = z.looseObject({
  model: z.string(),
  messages: z.array(Message).min(1),
  seed: z.number().int().nullish(),
  stream: z.boolean().nullish(),
  logprobs: z.boolean().nullish(),
  return_token_ids: z.boolean().nullish(),
});
export type ChatRequest = z.infer<typeof ChatRequest>;

export type Choice =
  | { kind: 'reply'; entry: ScriptEntry; reply: ScriptedReply; step: number }
  | { kind: 'nothing'; entry: ScriptEntry | null; message: string };

/** Which reply a request gets. Pure: the same request always gets the same one. */
export function chooseReply(script: Script, request: ChatRequest): Choice {
  const prompt = joinTexts(request.messages.find((message) => message.role === 'user'));
  const entry = script.entries.find((candidate) => prompt.includes(candidate.when));
  if (!entry) {
    const known = script.entries.map((candidate) => JSON.stringify(candidate.when)).join(', ');
    return {
      kind: 'nothing',
      entry: null,
      message: `no entry of the script matches ${JSON.stringify(prompt.slice(0, 120))}; it has ${known}`,
    };
  }
  const step = request.messages.filter((message) => message.role === 'assistant').length;
  return entry.policy
    ? replyOfPolicy(entry, entry.policy, request, step)
    : nextReply(entry, request.seed ?? 0, prompt, step);
}

function replyOfPolicy(
  entry: ScriptEntry,
  policy: ScriptedPolicy,
  { messages, seed }: ChatRequest,
  step: number,
): Choice {
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  const seen = messages
    .slice(last + 1)
    .map(joinTexts)
    .join('\n');
  const said = messages.map(toSpoken).map(({ role, text }) => `${role}\0${text}`);
  const reply = drawReply(policy, { seed: seed ?? 0, said, seen });
  if (reply) return { kind: 'reply', entry, reply, step };
  const message = `the policy of ${JSON.stringify(entry.when)} has no state for ${JSON.stringify(seen.slice(0, 120))}`;
  return { kind: 'nothing', entry, message };
}

function nextReply(entry: ScriptEntry, seed: number, prompt: string, step: number): Choice {
  const replies = pickVariant(entry, seed);
  const reply = replies[step];
  if (reply?.solve) {
    const text = solveSum(prompt);
    if (text !== null) return { kind: 'reply', entry, reply: { ...reply, text }, step };
    const message = `there is no sum to solve in ${JSON.stringify(prompt.slice(0, 120))}`;
    return { kind: 'nothing', entry, message };
  }
  if (reply) return { kind: 'reply', entry, reply, step };
  return {
    kind: 'nothing',
    entry,
    message: `script ran out of replies: ${JSON.stringify(entry.when)} has ${replies.length}, and reply ${step} was asked for`,
  };
}

function pickVariant({ replies = [], variants = [] }: ScriptEntry, seed: number): ScriptedReply[] {
  const ways = [replies, ...variants.map((variant) => variant.replies)];
  return ways[Math.abs(seed) % ways.length] ?? replies;
}

/**
 * The chat completion that says `reply`. Ids and usage follow from the request alone. A token is four characters; with
 * `return_token_ids` each has an id, and the ids of a prompt begin with those of the turn before it.
 */
export function toCompletion(request: ChatRequest, reply: ScriptedReply, step: number): object {
  const toolCalls = (reply.toolCalls ?? []).map((call, n) => ({
    id: `call_${step}_${n}`,
    type: 'function',
    function: {
      name: call.name,
      arguments: call.rawArguments ?? JSON.stringify(call.arguments ?? {}),
    },
  }));
  const message = {
    role: 'assistant',
    content: reply.text ?? null,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  const asked = JSON.stringify(request.messages);
  const ids = toTokenIds(request, message, reply);
  const called = toolCalls.map((call) => call.function.name + call.function.arguments);
  const prompt = ids?.prompt.length ?? tokensIn(asked);
  const completion = ids?.output.length ?? tokensIn((reply.text ?? '') + called.join(''));
  return {
    id: `chatcmpl-${digest([request.model, String(request.seed), asked]).slice(0, 24)}`,
    object: 'chat.completion',
    created: 0,
    model: request.model,
    choices: [
      {
        index: 0,
        message,
        finish_reason: reply.finishReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop'),
        ...(ids ? { prompt_token_ids: ids.prompt, token_ids: ids.output } : {}),
        ...(ids && request.logprobs ? { logprobs: { content: toLogprobs(ids.output) } } : {}),
      },
    ],
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    },
  };
}

function toTokenIds(request: ChatRequest, message: Message, reply: ScriptedReply) {
  if (!request.return_token_ids) return null;
  return {
    prompt: promptTokens(request.messages.map(toSpoken)),
    output: replyTokens(toSpoken(message), { resplit: reply.resplit ?? false }),
  };
}

/** A message as the model sees it: its text, then its tool calls. */
const toSpoken = (message: Message): { role: string; text: string } => {
  const calls = (message.tool_calls ?? []).map(
    (call) => `${call.function.name}(${normalizeJson(call.function.arguments)})`,
  );
  return { role: message.role, text: [joinTexts(message), ...calls].join('\n') };
};

/** Clients write the arguments of earlier calls anew, with blanks of their own. */
function normalizeJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

function solveSum(prompt: string): string | null {
  const [, a, b] = /(-?\d+)\s*\+\s*(-?\d+)/.exec(prompt) ?? [];
  return a === undefined || b === undefined ? null : String(BigInt(a) + BigInt(b));
}

const digest = (texts: string[]): string =>
  createHash('sha256').update(texts.join('\0')).digest('hex');

const tokensIn = (text: string): number => Math.ceil(text.length / 4);

function joinTexts(message: Message | undefined): string {
  const content = message?.content ?? '';
  if (typeof content === 'string') return content;
  return content.map((part) => part.text ?? '').join('\n');
}
