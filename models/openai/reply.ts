import { z } from 'zod';
import type { ModelChoice } from '../../contracts/rollout';
import type { ModelReply, ToolCall } from '../../contracts/trajectory';
import { ModelError } from '../model';
import { isObject, toUsage, wrongBody } from '../reply';

const ChatToolCall = z.looseObject({
  id: z.string().nullish(),
  function: z.looseObject({ name: z.string().nullish(), arguments: z.unknown() }).nullish(),
});

const tokenIds = z.array(z.number().int()).nullish();

const ChatCompletion = z.looseObject({
  model: z.string().nullish(),
  prompt_token_ids: tokenIds,
  choices: z
    .array(
      z.looseObject({
        finish_reason: z.string().nullish(),
        message: z.looseObject({
          content: z.string().nullish(),
          refusal: z.string().nullish(),
          tool_calls: z.array(ChatToolCall).nullish(),
          prompt_token_ids: tokenIds,
          token_ids: tokenIds,
        }),
        logprobs: z
          .looseObject({ content: z.array(z.looseObject({ logprob: z.number() })).nullish() })
          .nullish(),
        prompt_token_ids: tokenIds,
        token_ids: tokenIds,
      }),
    )
    .min(1),
  usage: z
    .looseObject({ prompt_tokens: z.number().nullish(), completion_tokens: z.number().nullish() })
    .nullish(),
});

type ChatCompletion = z.infer<typeof ChatCompletion>;

/**
 * A chat completion as a ModelReply. What is kept: text, tool calls, usage, and token ids and log-probabilities when given.
 * @throws ModelError ModelUnavailable when the body is not a chat completion; ModelRequestInvalid when token ids were asked
 *   for and do not fit the log-probabilities beside them
 */
export function parseChatCompletion(
  body: unknown,
  choice: ModelChoice,
  durationS: number,
): ModelReply {
  const parsed = ChatCompletion.safeParse(body);
  const first = parsed.success ? parsed.data.choices[0] : undefined;
  if (!parsed.success || !first) throw wrongBody(body, 'a chat completion');
  const { message } = first;
  const { usage } = parsed.data;
  const toolCalls = (message.tool_calls ?? []).map(toToolCall);
  return {
    text: message.content ?? message.refusal ?? '',
    toolCalls,
    finishReason: toFinishReason(first.finish_reason, toolCalls.length, message.refusal),
    usage: toUsage(usage?.prompt_tokens ?? 0, usage?.completion_tokens ?? 0, choice),
    durationS,
    model: parsed.data.model ?? choice.name,
    ...pickTrainingData(parsed.data, choice),
  };
}

/**
 * Token ids and log-probabilities, wherever the endpoint puts them: beside the choice, in its message, or (ids of the prompt)
 * at the top. Ids and log-probabilities that do not match are of no use: they are refused when they were asked for, else left out.
 */
function pickTrainingData(
  { prompt_token_ids: atTop, choices: [first] }: ChatCompletion,
  { settings }: ModelChoice,
): Pick<ModelReply, 'promptTokenIds' | 'tokenIds' | 'logprobs'> {
  const promptTokenIds = first?.prompt_token_ids ?? first?.message.prompt_token_ids ?? atTop;
  const tokenIds = first?.token_ids ?? first?.message.token_ids;
  const logprobs = first?.logprobs?.content?.map((token) => token.logprob);
  if (tokenIds && logprobs && tokenIds.length !== logprobs.length) {
    if (settings.extraBody?.['return_token_ids'] !== true) return {};
    throw new ModelError(
      'ModelRequestInvalid',
      `the endpoint answered with ${tokenIds.length} token ids and ${logprobs.length} log-probabilities, which do not match: leave out return_token_ids, or use an endpoint that returns both alike`,
    );
  }
  return {
    ...(promptTokenIds ? { promptTokenIds } : {}),
    ...(tokenIds ? { tokenIds } : {}),
    ...(logprobs ? { logprobs } : {}),
  };
}

function toToolCall(call: z.infer<typeof ChatToolCall>): ToolCall {
  const id = call.id ?? '';
  const name = call.function?.name ?? '';
  const written = call.function?.arguments ?? '';
  // Some endpoints hand the object over as it is.
  if (isObject(written)) return { id, name, arguments: written };
  const raw = typeof written === 'string' ? written : JSON.stringify(written);
  if (raw.trim() === '') return { id, name, arguments: {} };
  const value = parseOrNull(raw);
  return isObject(value)
    ? { id, name, arguments: value }
    : { id, name, arguments: null, rawArguments: raw };
}

function toFinishReason(
  reason: string | null | undefined,
  calls: number,
  refusal: string | null | undefined,
): ModelReply['finishReason'] {
  if (reason === 'content_filter' || refusal) return 'refused';
  if (calls > 0) return 'tool_calls';
  return reason === 'length' ? 'length' : 'stop';
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
