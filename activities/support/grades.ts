import type { GradeResult } from '../../contracts/rollout';
import type { Documents } from '../../rollouts/documents';
import { readEntries } from '../../rollouts/trajectory/chain';

/** What a grader said. */
export interface Grade extends Pick<GradeResult, 'reward' | 'rewards' | 'evidenceRef' | 'summary'> {
  /** It could not be asked: the agent had ended what it is asked of. */
  gone?: true;
}

/** Of a grader's inner rewards: what goes through histories is bounded, the evidence has the rest. */
const maxInner = 100;

/** Named values as rewards: a name that comes again gets a number, and what is past the bound is counted in `dropped`. */
export function innerRewards(values: [name: string, value: number][]): {
  rewards: Record<string, number>;
  dropped: number;
} {
  const rewards: Record<string, number> = {};
  for (const [given, value] of values.slice(0, maxInner)) {
    const name = given.slice(0, 64);
    let free = name;
    for (let n = 2; Object.hasOwn(rewards, free); n += 1) free = `${name}-${n}`;
    rewards[free] = value;
  }
  return { rewards, dropped: Math.max(0, values.length - maxInner) };
}

/** Keeps a grade's evidence beside it. */
export async function gradeOf(
  documents: Documents,
  said: Omit<Grade, 'evidenceRef'>,
  evidence: object,
): Promise<Grade> {
  const { summary } = said;
  return { ...said, summary: summary.slice(0, 500), evidenceRef: await documents.put(evidence) };
}

/** The agent's answer: the text of its last reply, empty when there was none. */
export async function answerOf(documents: Documents, head: string): Promise<string> {
  const entries = await readEntries(documents, head);
  const last = entries.findLast((entry) => entry.type === 'reply');
  return last?.reply.text ?? '';
}
