import type { HandBack, ModelMessage } from '../../models/model';

/** A step with two tool calls, one of them with broken arguments; an image among their results; then a person's word. */
export const transcript = (handBack?: HandBack): ModelMessage[] => [
  { role: 'system', text: 'Be brief.' },
  {
    role: 'user',
    parts: [
      { type: 'text', text: 'Mend it.' },
      { type: 'image', mimeType: 'image/png', base64: 'BBBB' },
    ],
  },
  {
    role: 'assistant',
    text: '',
    toolCalls: [
      { id: 'a', name: 'look', arguments: { x: 1 } },
      { id: 'call-1-1', name: 'look', arguments: null, rawArguments: '{"x":' },
    ],
    ...(handBack ? { handBack } : {}),
  },
  {
    role: 'tool',
    toolCallId: 'a',
    name: 'look',
    isError: false,
    parts: [{ type: 'image', mimeType: 'image/png', base64: 'AAAA' }],
  },
  {
    role: 'tool',
    toolCallId: 'call-1-1',
    name: 'look',
    isError: true,
    parts: [{ type: 'text', text: 'no JSON' }],
  },
  { role: 'user', parts: [{ type: 'text', text: 'Hurry.' }] },
];

export const look = {
  name: 'look',
  description: 'Looks',
  inputSchema: { type: 'object', properties: { x: { type: 'integer' } } },
};
