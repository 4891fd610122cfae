import type { TokenSegment } from './schema';
import { replyOf } from './tree';
import type { TrainingLink } from './tree';

/**
 * The token ids of links. A prompt is given with every reply, whole; of each only what is new is kept, and what all the
 * children of a link have in common there belongs to that link, so it is there once.
 */
export function tokenSegments(links: TrainingLink[]): Map<TrainingLink, TokenSegment[]> {
  const segments = new Map<TrainingLink, TokenSegment[]>();
  /** The whole sequence up to the end of a link; null where it is not known. */
  const sequences = new Map<TrainingLink | null, number[] | null>([[null, []]]);
  for (const link of links) {
    const own = segments.get(link) ?? [];
    const before = sequences.get(link.parent) ?? null;
    const sequence = extend(own, link, before);
    const common = commonPrompt(link, sequence);
    if (common.length > 0) own.push({ of: 'prompt', ids: common });
    sequences.set(link, sequence && [...sequence, ...common]);
    if (own.length > 0) segments.set(link, own);
  }
  return segments;
}

/** Adds what the link's own reply brings. @returns the sequence with it */
function extend(own: TokenSegment[], link: TrainingLink, before: number[] | null): number[] | null {
  const reply = replyOf(link);
  if (!reply) return before;
  const { promptTokenIds: prompt, tokenIds: ids, logprobs } = reply;
  if (!prompt || !ids) return null;
  const goesOn = before !== null && beginsWith(prompt, before);
  const fresh = goesOn ? prompt.slice(before.length) : prompt;
  if (!goesOn) own.push({ of: 'prompt', ids: fresh, restarts: true });
  else if (fresh.length > 0) own.push({ of: 'prompt', ids: fresh });
  own.push({ of: 'answer', ids, ...(logprobs ? { logprobs } : {}) });
  return [...prompt, ...ids];
}

/** What every child's prompt goes on with after this sequence, token by token. */
function commonPrompt({ children }: TrainingLink, sequence: number[] | null): number[] {
  if (sequence === null || children.length === 0) return [];
  const fresh = children.map((child) => {
    const prompt = replyOf(child)?.promptTokenIds;
    return prompt && beginsWith(prompt, sequence) ? prompt.slice(sequence.length) : [];
  });
  const [first = [], ...others] = fresh;
  let length = 0;
  while (length < first.length && others.every((ids) => ids[length] === first[length])) length += 1;
  return first.slice(0, length);
}

const beginsWith = (ids: number[], start: number[]): boolean =>
  start.every((id, index) => ids[index] === id);
