import type { Continuation, RolloutInput } from '../contracts/rollout';
import { digestOf } from './canonical';

/** What makes a rollout the one it is. */
export interface RolloutMeaning {
  taskDigest: string;
  agent: RolloutInput['agent'];
  model: string;
  settings: RolloutInput['model']['settings'];
  limits: RolloutInput['limits'];
  index: number;
  from?: Pick<Continuation, 'parentRolloutId' | 'step' | 'trajectory'>;
}

/**
 * The identity of a rollout: equal for equal task, agent, model, settings, limits and index, whatever address the model has
 * or whose key asks it. Named fields only, so that an address in an argument never gets in.
 */
export function identityOf(meaning: RolloutMeaning): string {
  const { taskDigest, agent, model, settings, limits, index, from } = meaning;
  return digestOf({ taskDigest, agent, model, settings, limits, index, from });
}
