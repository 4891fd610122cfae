import type { RolloutState } from './state';

/**
 * Keys of effects, made from meaning: they stay what they are when a worker dies, an activity is tried again or a run continues
 * as new. Each attempt has its sandbox, and another one, `r<k>`, after its k-th restore.
 */
type Place = Pick<RolloutState, 'rolloutId' | 'attempt' | 'restores'>;

const sandboxKey = ({ rolloutId, attempt, restores }: Place): string =>
  `${rolloutId}/${attempt}${restores > 0 ? `r${restores}` : ''}`;

export const createKey = (place: Place): string => `${sandboxKey(place)}/create`;
export const restoreKey = (place: Place): string => `${sandboxKey(place)}/restore`;
export const startTaskKey = (place: Place): string => `${sandboxKey(place)}/start`;
export const snapshotKey = (place: Place): string => `${sandboxKey(place)}/snapshot`;
export const toolsKey = (place: Place): string => `${sandboxKey(place)}/tools`;

export const commandKey = (place: Place, list: 'setup' | 'solution', index: number): string =>
  `${sandboxKey(place)}/${list}/${index}`;

/** What the keys of recorded calls that are made again begin with; each has its place after it. */
export const replayKey = (place: Place): string => `${sandboxKey(place)}/replay`;

/** The checkpoint that somebody asked for, before this step. */
export const askedKey = (place: Place, step: number): string =>
  `${sandboxKey(place)}/step/${step}/asked`;

/** What the keys of a step's tool calls begin with; each has its index after it. */
export const callsKey = (place: Place, step: number): string =>
  `${sandboxKey(place)}/step/${step}/call`;

/** Belongs to the attempt and not to its sandbox: a reply stays recorded when its step is made again in a restored one. */
export const modelKey = ({ rolloutId, attempt }: Place, step: number): string =>
  `${rolloutId}/${attempt}/step/${step}/model`;

export const verifyKey = (place: Place, what: number | 'start'): string =>
  `${sandboxKey(place)}/verify/${what}`;

export const gradeKey = (place: Place, grader: string): string =>
  `${sandboxKey(place)}/grade/${grader}`;
