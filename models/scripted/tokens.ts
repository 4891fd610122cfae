/**
 * The tokens of the scripted model: deterministic, and such that the prompt of a turn begins with the prompt and the reply of the
 * turn before it. Every message is `start, role, …text, end`; a prompt ends with the opening of the reply.
 */

export interface Spoken {
  role: string;
  text: string;
}

const start = 1;
const end = 2;
/** Ids below are of marks and roles. */
const firstText = 1000;
const vocabulary = 150_000;

export const promptTokens = (messages: Spoken[]): number[] => [
  ...messages.flatMap((message) => [...opening(message.role), ...textTokens(message.text, 4), end]),
  ...opening('assistant'),
];

/** With `resplit` the same text in other tokens than a later prompt will have for it. */
export const replyTokens = ({ text }: Spoken, { resplit }: { resplit: boolean }): number[] => [
  ...textTokens(text, resplit ? 3 : 4),
  end,
];

/** One entry for each token, as chat completions have them. */
export const toLogprobs = (tokens: number[]): object[] =>
  tokens.map((id) => ({
    token: `<${id}>`,
    logprob: -((id % 1000) + 1) / 1000,
    bytes: null,
    top_logprobs: [],
  }));

const opening = (role: string): number[] => [start, 10 + (hash(role) % 900)];

/** One id for each run of `length` characters. */
function textTokens(text: string, length: number): number[] {
  const tokens: number[] = [];
  for (let at = 0; at < text.length; at += length) {
    tokens.push(firstText + (hash(text.slice(at, at + length)) % (vocabulary - firstText)));
  }
  return tokens;
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193) >>> 0;
  }
  return value;
}
