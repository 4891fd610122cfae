import { z } from 'zod';
import type { ModelChoice } from '../../contracts/rollout';
import type { ModelReply, ToolCall } from '../../contracts/trajectory';
import { ModelError } from '../model';
import { isObject, toUsage, wrongBody } from '../reply';

const Block = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({
    type: z.literal('tool_use'),
    id: z.string(),
    name: z.string(),
    input: z.unknown(),
  }),
]);

const Message = z.looseObject({
  type: z.literal('message'),
  model: z.string().nullish(),
  content: z.array(z.looseObject({ type: z.string() })),
  stop_reason: z.string().nullish(),
  usage: z
    .looseObject({
      input_tokens: z.number().nullish(),
      cache_creation_input_tokens: z.number().nullish(),
      cache_read_input_tokens: z.number().nullish(),
      output_tokens: z.number().nullish(),
    })
    .nullish(),
});

/**
 * A message as a ModelReply. Prompt tokens count those read from and written to the cache too.
 * @throws ModelError ModelUnavailable when the body is not a message; ModelRequestInvalid for a paused turn
 */
export function parseAnthropicReply(
  body: unknown,
  choice: ModelChoice,
  durationS: number,
): ModelReply {
  const parsed = Message.safeParse(body);
  if (!parsed.success) throw wrongBody(body, 'a message');
  const { content, stop_reason: reason, usage } = parsed.data;
  if (reason === 'pause_turn') {
    throw new ModelError(
      'ModelRequestInvalid',
      'the model paused its turn for a server-side tool, which is not supported: remove server-side tools from the request',
    );
  }
  // Blocks of another shape (thinking, server-side tools) are only handed back.
  const blocks = content.flatMap((block) => Block.safeParse(block).data ?? []);
  const toolCalls = blocks.flatMap((block) =>
    block.type === 'tool_use' ? [toToolCall(block)] : [],
  );
  const cut = reason === 'max_tokens' || reason === 'model_context_window_exceeded';
  // The limit may cut a call so that what is left still parses: it is no call that the model meant.
  if (cut && content.at(-1)?.type === 'tool_use') spoilLast(toolCalls);
  const prompt =
    (usage?.input_tokens ?? 0) +
    (usage?.cache_creation_input_tokens ?? 0) +
    (usage?.cache_read_input_tokens ?? 0);
  const signed = content.some((block) => block.type.endsWith('thinking'));
  return {
    text: blocks.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join(''),
    toolCalls,
    finishReason: toFinishReason(reason, cut, toolCalls.length),
    usage: toUsage(prompt, usage?.output_tokens ?? 0, choice),
    durationS,
    model: parsed.data.model ?? choice.name,
    ...(signed ? { handBack: { provider: 'anthropic', content } } : {}),
  };
}

function toToolCall({
  id,
  name,
  input,
}: Extract<z.infer<typeof Block>, { type: 'tool_use' }>): ToolCall {
  return isObject(input)
    ? { id, name, arguments: input }
    : { id, name, arguments: null, rawArguments: JSON.stringify(input) ?? '' };
}

function spoilLast(toolCalls: ToolCall[]): void {
  const last = toolCalls.at(-1);
  if (!last?.arguments) return;
  last.rawArguments = JSON.stringify(last.arguments);
  last.arguments = null;
}

function toFinishReason(
  reason: string | null | undefined,
  cut: boolean,
  calls: number,
): ModelReply['finishReason'] {
  if (reason === 'refusal') return 'refused';
  if (calls > 0) return 'tool_calls';
  return cut ? 'length' : 'stop';
}
