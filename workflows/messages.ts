import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { BatchProgress } from '../contracts/batch';
import type { ExplorationProgress } from '../contracts/exploration';
import type { Checkpoint, RolloutStatus } from '../contracts/rollout';

/** Stops a rollout: what runs is cancelled, the result recorded as cancelled, the sandbox deleted. */
export const cancelSignal = defineSignal('cancel');

/** Where a rollout is. Also answered once it has ended. */
export const statusQuery = defineQuery<RolloutStatus>('status');

/** Holds a rollout before its next model call; its sandbox lives on. Pausing twice is pausing once. */
export const pauseUpdate = defineUpdate<RolloutStatus>('pause');
export const resumeUpdate = defineUpdate<RolloutStatus>('resume');

/** A person's word to the agent, shown before its next model call. Returns how many wait to be shown. */
export const messageUpdate = defineUpdate<number, [{ text: string }]>('message');

/**
 * Takes a checkpoint of a running rollout at the next moment between two of its steps, and answers it: one that was taken there
 * anyway is that one. Refused for a rollout without steps, and where no version holds the world.
 */
export const checkpointUpdate = defineUpdate<Checkpoint>('checkpoint');

/** As `checkpoint`, for whoever wants to go on from there: `version` is empty where only a replay can. */
export const forkUpdate = defineUpdate<Checkpoint>('fork');

/** Counts of a batch so far. */
export const progressQuery = defineQuery<BatchProgress>('progress');

export const explorationQuery = defineQuery<ExplorationProgress>('exploration');
