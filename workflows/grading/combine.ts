import type { GradingFacts } from '../../rollouts/task-facts';
import type { GradeResult } from '../../contracts/rollout';

/**
 * The one reward of several graders. `weighted`: positive weights are normalised to 1 and a negative one takes off what it is,
 * so that the sum may fall below 0; `any` is the best of them, `all` the worst, whatever their weights. Null while one is missing.
 */
export function combine(
  how: GradingFacts['combine'],
  grades: Pick<GradeResult, 'reward' | 'weight'>[],
): number | null {
  const rewards = grades.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  if (rewards.length < grades.length || rewards.length === 0) return null;
  switch (how) {
    case 'any':
      return Math.max(...rewards);
    case 'all':
      return Math.min(...rewards);
    case 'weighted': {
      // A sole grader's reward is told as it is, to the last digit.
      if (grades.length === 1 && grades[0]!.weight > 0) return rewards[0] ?? null;
      const total = grades.reduce((sum, { weight }) => sum + Math.max(0, weight), 0);
      return grades.reduce(
        (sum, { weight, reward }) => sum + (reward ?? 0) * (weight > 0 ? weight / total : weight),
        0,
      );
    }
  }
}

/**
 * What a rollout's rewards are called: a grader's name, and what is inside it as `name.inner`. The inner rewards of one verifier
 * or environment that alone gives the reward keep their own names.
 */
export function namedRewards(
  grades: (Pick<GradeResult, 'name' | 'kind' | 'reward' | 'rewards'> & { counts: boolean })[],
): Record<string, number> {
  const counting = grades.filter(({ counts }) => counts);
  const [first] = counting;
  const plain = first?.kind === 'verify' || first?.kind === 'hud';
  const sole = counting.length === 1 && plain ? first : null;
  const named: Record<string, number> = { ...sole?.rewards };
  for (const grade of grades) {
    if (grade === sole) continue;
    const { name, reward, rewards } = grade;
    if (reward !== null) named[name] = reward;
    for (const [inner, value] of Object.entries(rewards)) named[`${name}.${inner}`] = value;
  }
  return named;
}
