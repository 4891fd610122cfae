import { WorkflowNotFoundError } from '@temporalio/client';
import type { Client } from '@temporalio/client';
import { namespaceId } from '../rollouts/owner';

/** What the reaper asks Temporal. Whatever is no clear answer is an error. */
export interface RolloutStates {
  namespaceId: () => Promise<string>;
  /** `RUNNING`, another status of Temporal's, or `NOT_FOUND`. */
  stateOf: (rolloutId: string) => Promise<string>;
}

export function rolloutStates(temporal: Client): RolloutStates {
  return {
    namespaceId: () => namespaceId(temporal.workflowService, temporal.options.namespace),
    async stateOf(rolloutId) {
      try {
        return (await temporal.workflow.getHandle(rolloutId).describe()).status.name;
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return 'NOT_FOUND';
        throw error;
      }
    },
  };
}
