import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { SearchAttributePair } from '@temporalio/common';
import type { RolloutInput, RolloutResult } from '../contracts/rollout';

/** What rollouts can be found by in Temporal, where the namespace has these attributes registered. */
export const searchAttributes = {
  batch: defineSearchAttributeKey('RolloutBatch', 'KEYWORD'),
  task: defineSearchAttributeKey('RolloutTask', 'KEYWORD'),
  model: defineSearchAttributeKey('RolloutModel', 'KEYWORD'),
  outcome: defineSearchAttributeKey('RolloutOutcome', 'KEYWORD'),
  reward: defineSearchAttributeKey('RolloutReward', 'DOUBLE'),
};

/** For the start of a rollout; undefined where the namespace has none of them. */
export function startAttributes(input: RolloutInput): TypedSearchAttributes | undefined {
  return input.searchAttributes ? new TypedSearchAttributes(declared(input)) : undefined;
}

const declared = (input: RolloutInput): SearchAttributePair[] => [
  { key: searchAttributes.batch, value: input.batchId },
  { key: searchAttributes.task, value: input.taskId },
  { key: searchAttributes.model, value: input.model.name || input.agent },
];

/** For its end, however it was started. */
export function endAttributes(input: RolloutInput, result: RolloutResult): SearchAttributePair[] {
  const ended = [...declared(input), { key: searchAttributes.outcome, value: result.outcome }];
  if (result.reward === null) return ended;
  return [...ended, { key: searchAttributes.reward, value: result.reward }];
}
