import type { AgentSettings } from '../../contracts/task';
import type { ModelMessage, ModelPart, ToolSpec } from '../model';

type Block = Record<string, unknown>;
interface Message {
  role: 'user' | 'assistant';
  content: Block[];
}

/** System messages are no messages of this API: they are one text beside them. */
export const joinSystemTexts = (messages: ModelMessage[], { extraBody }: AgentSettings): string =>
  extraBody?.['system'] === undefined
    ? messages.flatMap((message) => (message.role === 'system' ? [message.text] : [])).join('\n\n')
    : '';

/**
 * A transcript in the words of the Messages API: roles alternate, the results of a step's tool calls are one message of
 * the user, and what a person said after them comes at its end.
 */
export function anthropicMessages(messages: ModelMessage[]): Message[] {
  const turns: Message[] = [];
  // A conversation begins with the user here; a task's may not.
  const [first] = messages.filter((message) => message.role !== 'system');
  if (first?.role === 'assistant') turns.push({ role: 'user', content: orWord([], '(nothing)') });
  for (const message of messages) {
    if (message.role === 'system') continue;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = toContent(message);
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...content);
    else turns.push({ role, content });
  }
  return turns;
}

export const anthropicTools = (tools: ToolSpec[]): Block[] =>
  tools.map((tool) => ({
    name: tool.name,
    description: tool.description,
    input_schema: { type: 'object', ...tool.inputSchema },
  }));

function toContent(message: Exclude<ModelMessage, { role: 'system' }>): Block[] {
  switch (message.role) {
    case 'user':
      return orWord(message.parts.flatMap(toBlocks), '(nothing)');
    case 'assistant':
      return assistantContent(message);
    case 'tool':
      return [
        {
          type: 'tool_result',
          tool_use_id: message.toolCallId,
          ...(message.isError ? { is_error: true } : {}),
          content: orWord(message.parts.flatMap(toBlocks), '(no output)'),
        },
      ];
  }
}

function assistantContent(message: Extract<ModelMessage, { role: 'assistant' }>): Block[] {
  const { text, toolCalls, handBack } = message;
  // Thinking is signed together with what stands around it.
  if (handBack?.provider === 'anthropic') return handBack.content as Block[]; // blocks of its own
  const calls = toolCalls.map((call) => ({
    type: 'tool_use',
    id: call.id,
    name: call.name,
    input: call.arguments ?? { invalid_arguments: call.rawArguments ?? '' },
  }));
  return orWord([...textBlock(text), ...calls], '(nothing)');
}

const toBlocks = (part: ModelPart): Block[] =>
  part.type === 'text'
    ? textBlock(part.text)
    : [
        {
          type: 'image',
          source: { type: 'base64', media_type: part.mimeType, data: part.base64 },
        },
      ];

// The API refuses text that is empty or blank, and content without a block.
const textBlock = (text: string): Block[] => (text.trim() === '' ? [] : [{ type: 'text', text }]);

const orWord = (blocks: Block[], word: string): Block[] =>
  blocks.length > 0 ? blocks : [{ type: 'text', text: word }];
