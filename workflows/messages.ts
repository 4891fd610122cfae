import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { BatchProgress } from '../contracts/batch';
import type { RolloutStatus } from '../contracts/rollout';

/** Stops a rollout: what runs is cancelled, the result recorded as cancelled, the sandbox deleted. */
export const cancelSignal = defineSignal('cancel');

/** Where a rollout is. Also answered once it has ended. */
export const statusQuery = defineQuery<RolloutStatus>('status');

/** Holds a rollout before its next model call; its sandbox lives on. Pausing twice is pausing once. */
export const pauseUpdate = defineUpdate<RolloutStatus>('pause');
export const resumeUpdate = defineUpdate<RolloutStatus>('resume');

/** A person's word to the agent, shown before its next model call. Returns how many wait to be shown. */
export const messageUpdate = defineUpdate<number, [{ text: string }]>('message');

/** Counts of a batch so far. */
export const progressQuery = defineQuery<BatchProgress>('progress');
