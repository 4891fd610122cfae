import type { RegradeFacts, RegradeRecord } from '../activities/regrade';
import type { VerdictResult } from '../contracts/rollout';
import { combine, namedRewards } from './grading/combine';

/** What the rollout's reward is by a verdict: where other graders count too, with what they said at its end. */
export function rewardBy(
  { grading, grades }: Pick<RegradeFacts, 'grading' | 'grades'>,
  verdict: VerdictResult,
): Pick<RegradeRecord, 'verdict' | 'reward' | 'rewards' | 'why'> {
  if (verdict.verdict === 'none')
    return { verdict, reward: null, rewards: {}, why: verdict.summary };
  const { reward, rewards } = verdict;
  if (!grading) return { verdict, reward, rewards, why: null };
  const all = grading.graders.map((grader) => {
    const { name, kind, weight, counts } = grader;
    if (kind === 'verify') return { name, kind, weight, counts, reward, rewards };
    const said = grades.find((grade) => grade.name === name);
    const kept = { reward: said?.reward ?? null, rewards: said?.rewards ?? {} };
    return { name, kind, weight, counts, ...kept };
  });
  const counting = all.filter(({ counts }) => counts);
  const combined = combine(grading.combine, counting);
  if (combined === null) {
    const silent = counting.filter((grade) => grade.reward === null).map(({ name }) => name);
    const why = `no reward: ${silent.join(', ')} gave none when the rollout ended`;
    return { verdict, reward: null, rewards: {}, why };
  }
  return { verdict, reward: combined, rewards: namedRewards(all), why: null };
}
