import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Script, ScriptedReply, ScriptEntry } from './scripted-script';

const Part = z.looseObject({ type: z.string(), text: z.string().optional() });
const Message = z.looseObject({
  role: z.string(),
  content: z.union([z.string(), z.array(Part)]).nullish(),
});

/** The fields of a chat completion request that decide its answer. */
export const ChatRequest = z.looseObject({
  model: z.string(),
  messages: z.array(Message).min(1),
  seed: z.number().int().nullish(),
  stream: z.boolean().nullish(),
});
export type ChatRequest = z.infer<typeof ChatRequest>;

export type Choice =
  | { kind: 'reply'; entry: ScriptEntry; reply: ScriptedReply; step: number }
  | { kind: 'nothing'; entry: ScriptEntry | null; message: string };

/** Which reply a request gets. Pure: the same request always gets the same one. */
export function chooseReply(script: Script, request: ChatRequest): Choice {
  const prompt = textOf(request.messages.find((message) => message.role === 'user'));
  const entry = script.entries.find((candidate) => prompt.includes(candidate.when));
  if (!entry) {
    const known = script.entries.map((candidate) => JSON.stringify(candidate.when)).join(', ');
    return {
      kind: 'nothing',
      entry: null,
      message: `no entry of the script matches ${JSON.stringify(prompt.slice(0, 120))}; it has ${known}`,
    };
  }
  const ways = [entry.replies, ...(entry.variants ?? []).map((variant) => variant.replies)];
  const replies = ways[Math.abs(request.seed ?? 0) % ways.length] ?? entry.replies;
  const step = request.messages.filter((message) => message.role === 'assistant').length;
  const reply = replies[step];
  if (reply) return { kind: 'reply', entry, reply, step };
  return {
    kind: 'nothing',
    entry,
    message: `script ran out of replies: ${JSON.stringify(entry.when)} has ${replies.length}, and reply ${step} was asked for`,
  };
}

/** The chat completion that says `reply`. Ids and usage follow from the request alone: a token is four characters. */
export function completionOf(request: ChatRequest, reply: ScriptedReply, step: number): object {
  const toolCalls = (reply.toolCalls ?? []).map((call, n) => ({
    id: `call_${step}_${n}`,
    type: 'function',
    function: {
      name: call.name,
      arguments: call.rawArguments ?? JSON.stringify(call.arguments ?? {}),
    },
  }));
  const called = toolCalls.map((call) => call.function.name + call.function.arguments);
  const asked = JSON.stringify(request.messages);
  const promptTokens = tokensIn(asked);
  const completionTokens = tokensIn((reply.text ?? '') + called.join(''));
  return {
    id: `chatcmpl-${digestOf([request.model, String(request.seed), asked]).slice(0, 24)}`,
    object: 'chat.completion',
    created: 0,
    model: request.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: reply.text ?? null,
          ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
        },
        finish_reason: reply.finishReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop'),
      },
    ],
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    },
  };
}

const digestOf = (texts: string[]): string =>
  createHash('sha256').update(texts.join('\0')).digest('hex');

const tokensIn = (text: string): number => Math.ceil(text.length / 4);

function textOf(message: z.infer<typeof Message> | undefined): string {
  const content = message?.content ?? '';
  if (typeof content === 'string') return content;
  return content.map((part) => part.text ?? '').join('\n');
}
