import { WorkflowNotFoundError } from '@temporalio/client';
import type { Client, WorkflowService } from '@temporalio/client';
import type { QueryDefinition } from '@temporalio/common';

/**
 * Reads how a workflow is: the status by Temporal's own name, such as `RUNNING`, or `GONE` when Temporal does not know it, because
 * it never started or was forgotten after its retention.
 */
export async function readWorkflowState(temporal: Client, workflowId: string): Promise<string> {
  const described = await nullIfGone(temporal.workflow.getHandle(workflowId).describe());
  return described?.status.name ?? 'GONE';
}

/** What was asked of one workflow; null when Temporal does not know it. Every other failure is thrown. */
export async function nullIfGone<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

/** Nobody answered a query: no worker in time, or Temporal itself failed. The cause says which. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
}

/**
 * Asks a workflow a query, which a worker has to answer.
 * @returns null when Temporal does not know the workflow
 * @throws NoAnswerError
 */
export async function queryWorkflow<R>(
  temporal: Client,
  workflowId: string,
  query: QueryDefinition<R>,
  withinMs: number,
): Promise<R | null> {
  const ask = () => temporal.workflow.getHandle(workflowId).query(query);
  try {
    return await nullIfGone(temporal.withDeadline(Date.now() + withinMs, ask));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new NoAnswerError(`${workflowId} did not answer within ${withinMs / 1000} s: ${reason}`, {
      cause,
    });
  }
}

/** Reads the id of a namespace: another Temporal has another one under the same name. */
export async function readNamespaceId(
  service: WorkflowService,
  namespace: string,
): Promise<string> {
  const { namespaceInfo } = await service.describeNamespace({ namespace });
  if (!namespaceInfo?.id) throw new Error(`Temporal did not tell the id of namespace ${namespace}`);
  return namespaceInfo.id;
}
