import type OpenAI from 'openai';
import type { ToolCall } from '../../contracts/trajectory';
import type { ModelMessage, ModelPart, ToolSpec } from '../model';

type ChatMessage = OpenAI.Chat.Completions.ChatCompletionMessageParam;
type ChatPart = OpenAI.Chat.Completions.ChatCompletionContentPart;
type ChatTool = OpenAI.Chat.Completions.ChatCompletionTool;

/**
 * A transcript in the words of chat completions. A tool message there holds text alone, so the images of a step's
 * observations follow its tool messages as one user message.
 */
export function chatMessages(messages: ModelMessage[]): ChatMessage[] {
  const chat: ChatMessage[] = [];
  let images: ChatPart[] = [];
  const flushImages = (): void => {
    if (images.length > 0) chat.push({ role: 'user', content: images });
    images = [];
  };
  for (const message of messages) {
    if (message.role !== 'tool') flushImages();
    switch (message.role) {
      case 'system':
        chat.push({ role: 'system', content: message.text });
        break;
      case 'user':
        chat.push({ role: 'user', content: userContent(message.parts) });
        break;
      case 'assistant':
        chat.push(assistantMessage(message.text, message.toolCalls));
        break;
      case 'tool': {
        chat.push({
          role: 'tool',
          tool_call_id: message.toolCallId,
          content: joinTexts(message.parts) || '(no output)',
        });
        const shown = message.parts.filter((part) => part.type === 'image').map(chatPart);
        if (shown.length > 0) {
          images.push({ type: 'text', text: `Images of tool call ${message.toolCallId}:` });
          images.push(...shown);
        }
        break;
      }
    }
  }
  flushImages();
  return chat;
}

export const chatTools = (tools: ToolSpec[]): ChatTool[] =>
  tools.map((tool) => ({
    type: 'function',
    function: {
      name: tool.name,
      description: tool.description,
      parameters: tool.inputSchema,
    },
  }));

const joinTexts = (parts: ModelPart[]): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');

const userContent = (parts: ModelPart[]): string | ChatPart[] =>
  parts.every((part) => part.type === 'text') ? joinTexts(parts) : parts.map(chatPart);

const chatPart = (part: ModelPart): ChatPart =>
  part.type === 'text'
    ? { type: 'text', text: part.text }
    : { type: 'image_url', image_url: { url: `data:${part.mimeType};base64,${part.base64}` } };

function assistantMessage(text: string, toolCalls: ToolCall[]): ChatMessage {
  if (toolCalls.length === 0) return { role: 'assistant', content: text };
  return {
    role: 'assistant',
    content: text === '' ? null : text,
    tool_calls: toolCalls.map((call) => ({
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: argumentsText(call) },
    })),
  };
}

// Endpoints parse the arguments of earlier calls and refuse a transcript in which they are not JSON.
const argumentsText = (call: ToolCall): string =>
  JSON.stringify(call.arguments ?? { invalid_arguments: call.rawArguments ?? '' });
