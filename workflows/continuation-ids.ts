/** Ids of continuations, and of the explorations that make them: whoever starts the same one twice means the same workflow. */

/** `<parent>/e<step>.<k>`: the k-th fork of a step that was asked for by itself. */
export const forkId = (parentRolloutId: string, step: number, k: number): string =>
  `${parentRolloutId}/e${step}.${k}`;

/** `explore/<root>/<n>`: the n-th exploration of a rollout. */
export const explorationId = (rootRolloutId: string, n: number): string =>
  `explore/${rootRolloutId}/${n}`;

export const isExploration = (id: string): boolean => id.startsWith('explore/');

/** The rollout that an exploration started from. */
export const rootOfExploration = (exploreId: string): string =>
  exploreId.split('/').slice(1, -1).join('/');

/**
 * `<root>/x<exploration>.<n>`: the n-th continuation of an exploration. The exploration is named by the last part of its id, which
 * whoever starts it makes unique.
 */
export const continuationId = (rootRolloutId: string, exploreId: string, n: number): string =>
  `${rootRolloutId}/x${exploreId.split('/').at(-1)}.${n}`;
