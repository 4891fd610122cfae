import type { RolloutState } from './state';

/**
 * Keys of effects, made from meaning: they stay what they are when a worker dies, an activity is tried again or a run continues
 * as new. A world is one sandbox: the attempt, and `r<k>` after the k-th restore in it.
 */
type Place = Pick<RolloutState, 'rolloutId' | 'attempt' | 'restores'>;

export const worldKey = ({ rolloutId, attempt, restores }: Place): string =>
  `${rolloutId}/${attempt}${restores > 0 ? `r${restores}` : ''}`;

export const createKey = (place: Place): string => `${worldKey(place)}/create`;
export const restoreKey = (place: Place): string => `${worldKey(place)}/restore`;
export const startTaskKey = (place: Place): string => `${worldKey(place)}/start`;
export const snapshotKey = (place: Place): string => `${worldKey(place)}/snapshot`;
export const toolsKey = (place: Place): string => `${worldKey(place)}/tools`;

export const commandKey = (place: Place, list: 'setup' | 'solution', index: number): string =>
  `${worldKey(place)}/${list}/${index}`;

/** Of the calls of a replay; each has its place after it. */
export const replayKey = (place: Place): string => `${worldKey(place)}/replay`;

/** Of a checkpoint that somebody asked for, before that step. */
export const askedKey = (place: Place, step: number): string =>
  `${worldKey(place)}/step/${step}/asked`;

/** Of the tool calls of a step; each has its index after it. */
export const callsKey = (place: Place, step: number): string =>
  `${worldKey(place)}/step/${step}/call`;

/** Of the attempt, not the world: a reply stays recorded when its step is done over in a restored world. */
export const modelKey = ({ rolloutId, attempt }: Place, step: number): string =>
  `${rolloutId}/${attempt}/step/${step}/model`;

export const verifyKey = (place: Place, what: number | 'start'): string =>
  `${worldKey(place)}/verify/${what}`;

export const gradeKey = (place: Place, grader: string): string =>
  `${worldKey(place)}/grade/${grader}`;
