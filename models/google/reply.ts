import { z } from 'zod';
import type { ModelChoice } from '../../contracts/rollout';
import type { ModelReply, ToolCall } from '../../contracts/trajectory';
import { ownIdPrefix } from './messages';
import { toUsage, wrongBody } from '../reply';

const Part = z.looseObject({
  text: z.string().optional(),
  thought: z.boolean().optional(),
  thoughtSignature: z.string().optional(),
  functionCall: z
    .looseObject({
      id: z.string().nullish(),
      name: z.string().nullish(),
      args: z.record(z.string(), z.unknown()).nullish(),
    })
    .optional(),
});

const Answer = z.looseObject({
  modelVersion: z.string().nullish(),
  candidates: z
    .array(
      z.looseObject({
        content: z.looseObject({ parts: z.array(Part).nullish() }).nullish(),
        finishReason: z.string().nullish(),
      }),
    )
    .nullish(),
  promptFeedback: z
    .looseObject({ blockReason: z.string().nullish(), blockReasonMessage: z.string().nullish() })
    .nullish(),
  usageMetadata: z
    .looseObject({
      promptTokenCount: z.number().nullish(),
      toolUsePromptTokenCount: z.number().nullish(),
      candidatesTokenCount: z.number().nullish(),
      thoughtsTokenCount: z.number().nullish(),
    })
    .nullish(),
});

/** The provider's policy ended the answer, or its prompt. */
const refusals = new Set([
  'SAFETY',
  'RECITATION',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'LANGUAGE',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
  'MODEL_ARMOR',
]);
/** The model meant to call a tool, and what it wrote is no call. */
const brokenCalls = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
]);

/**
 * A generateContent answer as a ModelReply. Completion tokens count the thoughts too; thoughts are no text of the reply.
 * @param idSeed  for the ids of tool calls that the API gave none: unique to the request, the same for every try at it
 * @throws ModelError ModelUnavailable when the body is not such an answer, or an empty one without a reason
 */
export function parseGoogleReply(
  body: unknown,
  choice: ModelChoice,
  durationS: number,
  idSeed: string,
): ModelReply {
  const { data } = Answer.safeParse(body);
  const first = data?.candidates?.[0];
  const blocked = data?.promptFeedback?.blockReason;
  const parts = first?.content?.parts ?? [];
  const reason = first?.finishReason ?? blocked;
  if (!data || (!first && !blocked) || (parts.length === 0 && !saysWhy(reason))) {
    throw wrongBody(body, 'generated content');
  }
  const usage = data.usageMetadata;
  const toolCalls = parts.flatMap((part, n) => toToolCall(part, `${ownIdPrefix}${idSeed}-${n}`));
  // The client keeps the reason, and not what the model wrote.
  if (reason && brokenCalls.has(reason)) {
    toolCalls.push({ id: '', name: '', arguments: null, rawArguments: reason });
  }
  return {
    text: joinTexts(parts) || (blocked ? (data.promptFeedback?.blockReasonMessage ?? blocked) : ''),
    toolCalls,
    finishReason: toFinishReason(reason, toolCalls.length, blocked),
    usage: toUsage(
      (usage?.promptTokenCount ?? 0) + (usage?.toolUsePromptTokenCount ?? 0),
      (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0),
      choice,
    ),
    durationS,
    model: data.modelVersion ?? choice.name,
    ...(parts.some((part) => part.thoughtSignature)
      ? { handBack: { provider: 'google', content: parts } }
      : {}),
  };
}

const saysWhy = (reason: string | null | undefined): boolean =>
  reason === 'STOP' ||
  reason === 'MAX_TOKENS' ||
  refusals.has(reason ?? '') ||
  brokenCalls.has(reason ?? '');

const joinTexts = (parts: z.infer<typeof Part>[]): string =>
  parts.flatMap((part) => (part.text !== undefined && !part.thought ? [part.text] : [])).join('');

function toToolCall({ functionCall }: z.infer<typeof Part>, ownId: string): ToolCall[] {
  if (!functionCall) return [];
  const { id, name, args } = functionCall;
  return [{ id: id || ownId, name: name ?? '', arguments: args ?? {} }];
}

function toFinishReason(
  reason: string | null | undefined,
  calls: number,
  blocked: string | null | undefined,
): ModelReply['finishReason'] {
  if (blocked || refusals.has(reason ?? '')) return 'refused';
  if (calls > 0) return 'tool_calls';
  return reason === 'MAX_TOKENS' ? 'length' : 'stop';
}
