/**
 * How long a worker may hold one workflow task: one that dies in the middle of it is noticed after that. For whoever starts a
 * rollout, an exploration or a batch.
 */
export const workflowTaskTimeout = '5 seconds';
