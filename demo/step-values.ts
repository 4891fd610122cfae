import type { ExplorationResult } from '../contracts/exploration';

export interface StepValue {
  step: number;
  did: string;
  /** Mean reward of what continuations from before the step came to. */
  value: number;
  visits: number;
  /** How much less the value is after the step: what the step cost. */
  drop: number;
}

/**
 * The steps of a rollout whose value is known. After the last one it is known for certain: the rollout's own reward.
 * @param did  what each step did, in words
 */
export function stepsOf(
  values: ExplorationResult['values'],
  reward: number | null,
  did: Map<number, string>,
): StepValue[] {
  const known = values
    .flatMap(({ step, value, visits }) => (value === null ? [] : [{ step, value, visits }]))
    .toSorted((a, b) => a.step - b.step);
  return known.map(({ step, value, visits }, index) => {
    const after = known[index + 1]?.value ?? reward ?? value;
    return { step, did: did.get(step) ?? '', value, visits, drop: value - after };
  });
}

/** The step with the largest drop, the earliest of equals: the one that went wrong. */
export const worstOf = (steps: StepValue[]): StepValue | undefined =>
  steps.reduce<StepValue | undefined>(
    (worst, step) => (worst && worst.drop >= step.drop ? worst : step),
    undefined,
  );
