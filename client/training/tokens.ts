import type { TokenSegment } from './schema';
import { replyOf } from './tree';
import type { TrainingLink } from './tree';

/**
 * Splits the token ids of links into segments. The endpoint gives the whole prompt with every reply; only its new ids are kept. Those
 * that all children of a link have in common belong to the link itself, so they are written once.
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

/** The ids after this sequence with which the prompts of all children begin. */
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
