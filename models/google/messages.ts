import type { Content, Part, Tool } from '@google/genai';
import type { ToolCall } from '../../contracts/trajectory';
import type { ModelMessage, ModelPart, ToolSpec } from '../model';

/** Begins the ids that tool calls are given here when the API gave none; it is not shown those. */
export const ownIdPrefix = 'call-';

/**
 * Stands where a thought signature is missing, as in transcripts of another model: what the API documents for calls that it
 * did not make itself. Models that sign their calls refuse a transcript without any.
 */
const noSignature = 'skip_thought_signature_validator';

/** System messages are no contents: they are one text beside them. */
export const joinSystemTexts = (messages: ModelMessage[]): string =>
  messages.flatMap((message) => (message.role === 'system' ? [message.text] : [])).join('\n\n');

/**
 * A transcript as contents: roles alternate, the results of a step's tool calls are one content of the user, with their
 * images and what a person said after them.
 */
export function googleContents(messages: ModelMessage[]): Content[] {
  const contents: { role: string; parts: Part[] }[] = [];
  // A conversation begins with the user here; a task's may not.
  const [first] = messages.filter((message) => message.role !== 'system');
  if (first?.role === 'assistant') contents.push({ role: 'user', parts: [{ text: '(nothing)' }] });
  for (const message of messages) {
    if (message.role === 'system') continue;
    const role = message.role === 'assistant' ? 'model' : 'user';
    const parts = toParts(message);
    const last = contents.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else contents.push({ role, parts });
  }
  return contents.map(({ role, parts }) => ({ role, parts: resultsFirst(parts) }));
}

export const googleTools = (tools: ToolSpec[]): Tool[] => [
  {
    functionDeclarations: tools.map((tool) => ({
      name: tool.name,
      description: tool.description,
      parametersJsonSchema: tool.inputSchema,
    })),
  },
];

function toParts(message: Exclude<ModelMessage, { role: 'system' }>): Part[] {
  switch (message.role) {
    case 'user':
      return message.parts.map(toPart);
    case 'assistant':
      return modelParts(message);
    case 'tool': {
      const { toolCallId, name, isError, parts } = message;
      const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
      const said = text || '(no output)';
      const images = parts.filter((part) => part.type === 'image').map(toPart);
      return [
        {
          functionResponse: {
            ...toApiId(toolCallId),
            name,
            response: isError ? { error: said } : { output: said },
          },
        },
        ...(images.length > 0 ? [{ text: `Images of tool call ${toolCallId}:` }, ...images] : []),
      ];
    }
  }
}

function modelParts({
  text,
  toolCalls,
  handBack,
}: Extract<ModelMessage, { role: 'assistant' }>): Part[] {
  if (handBack?.provider === 'google') return handBack.content as Part[]; // parts of its own
  const calls = toolCalls.map((call, n) => ({
    functionCall: { ...toApiId(call.id), name: call.name, args: toArguments(call) },
    ...(n === 0 ? { thoughtSignature: noSignature } : {}),
  }));
  const said = text === '' && calls.length === 0 ? '(nothing)' : text;
  return [...(said === '' ? [] : [{ text: said }]), ...calls];
}

const toApiId = (id: string): { id?: string } => (id.startsWith(ownIdPrefix) ? {} : { id });

const toArguments = (call: ToolCall): Record<string, unknown> =>
  call.arguments ?? { invalid_arguments: call.rawArguments ?? '' };

const toPart = (part: ModelPart): Part =>
  part.type === 'text'
    ? { text: part.text }
    : { inlineData: { mimeType: part.mimeType, data: part.base64 } };

/** The API matches the results of one step with its calls, so nothing may stand between them. */
const resultsFirst = (parts: Part[]): Part[] => [
  ...parts.filter((part) => part.functionResponse),
  ...parts.filter((part) => !part.functionResponse),
];
