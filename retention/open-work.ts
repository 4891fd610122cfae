import type { Client } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { z } from 'zod';
import { nullIfGone, readNamespaceId, readWorkflowState } from '../temporal/states';

/** What the reaper and the collector ask Temporal. Whatever is no clear answer is an error. */
export interface OpenWork {
  namespaceId: () => Promise<string>;
  /** As `readWorkflowState` tells it. */
  stateOf: (rolloutId: string) => Promise<string>;
  /** Roots of the explorations that run, by the exploration's id. */
  explorations: () => Promise<{ exploreId: string; rootId: string }[]>;
  /** Versions that regrades under way judge. */
  regraded: () => Promise<Set<string>>;
}

const Exploration = z.object({ exploreId: z.string(), root: z.object({ rolloutId: z.string() }) });
const Regrade = z.object({ rollouts: z.array(z.object({ version: z.string() })) });

export function openWork(temporal: Client): OpenWork {
  return {
    namespaceId: () => readNamespaceId(temporal.workflowService, temporal.options.namespace),
    stateOf: (rolloutId) => readWorkflowState(temporal, rolloutId),
    async explorations() {
      const inputs = await openInputs(temporal, 'explore', Exploration);
      return inputs.map(({ exploreId, root }) => ({ exploreId, rootId: root.rolloutId }));
    },
    async regraded() {
      const inputs = await openInputs(temporal, 'regrade', Regrade);
      return new Set(inputs.flatMap(({ rollouts }) => rollouts.map(({ version }) => version)));
    },
  };
}

/** What the open workflows of a type were started with: the first event of each has it, also after continuing as new. */
async function openInputs<S extends z.ZodType>(
  temporal: Client,
  type: string,
  schema: S,
): Promise<z.output<S>[]> {
  const query = `WorkflowType = "${type}" AND ExecutionStatus = "Running"`;
  const inputs: z.output<S>[] = [];
  for await (const { workflowId, runId } of temporal.workflow.list({ query })) {
    const input = await readStartInput(temporal, workflowId, runId);
    if (input !== null) inputs.push(schema.parse(input));
  }
  return inputs;
}

/** Null when it has ended and was forgotten since it was listed. */
async function readStartInput(
  temporal: Client,
  workflowId: string,
  runId: string,
): Promise<unknown> {
  const answer = await nullIfGone(
    temporal.workflowService.getWorkflowExecutionHistory({
      namespace: temporal.options.namespace,
      execution: { workflowId, runId },
      maximumPageSize: 1,
    }),
  );
  if (answer === null) return null;
  const started = answer.history?.events?.[0]?.workflowExecutionStartedEventAttributes;
  const payload = started?.input?.payloads?.[0];
  if (!payload) throw new Error(`Temporal did not tell what ${workflowId} was started with`);
  return defaultPayloadConverter.fromPayload(payload);
}
