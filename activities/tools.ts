import { z } from 'zod';
import type { ModelChoice } from '../contracts/rollout';
import type { DenvClient } from '../denv/client';
import { DenvError } from '../denv/errors';
import { withCheckpointTools } from './checkpoint-tools';
import { type AgentContext, Tool } from './support/agent-context';
import { activity, held } from './support/heartbeat';
import type { Parts } from './support/parts';

const ToolPage = z.looseObject({ tools: z.array(Tool), nextCursor: z.string().optional() });

export interface ListToolsInput {
  key: string;
  sandboxId: string;
  taskRef: string;
  model: ModelChoice;
  promptRef?: string;
  /** Adds the two tools that are ours. */
  checkpointTools?: true;
  timeoutS: number;
}

/** More pages than this is a controller that never ends its list. */
const maxPages = 100;

export function toolActivities({ denv, documents }: Parts) {
  return {
    /**
     * Asks a sandbox's controller for its tools. Idempotent by `key`.
     * @returns `agentRef`: blob ref of the AgentContext that each model call of this attempt starts from
     * @throws ControllerFailed (final) the answer is no list of tools; SandboxStopped (final)
     */
    listTools: activity(
      async (input: ListToolsInput, signal: AbortSignal): Promise<{ agentRef: string }> => {
        const listed = await listTools(denv, input, signal);
        const own = input.checkpointTools === true;
        const tools = own ? withCheckpointTools(listed) : listed;
        const { taskRef, model, promptRef } = input;
        const context: AgentContext = {
          taskRef,
          model,
          tools,
          ...(promptRef === undefined ? {} : { promptRef }),
          ...(own ? { checkpointTools: true } : {}),
        };
        return { agentRef: await documents.put(context) };
      },
    ),
  };
}

async function listTools(
  denv: DenvClient,
  input: ListToolsInput,
  signal: AbortSignal,
): Promise<Tool[]> {
  const { sandboxId, timeoutS } = input;
  const tools: Tool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page += 1) {
    const key = `${input.key}/${page}`;
    const params = cursor === undefined ? {} : { cursor };
    const reply = await held(denv, null, key, () =>
      denv.call(sandboxId, { method: 'tools/list', params, timeoutS }, { key, signal }),
    );
    const parsed = ToolPage.safeParse(reply.result);
    if (!parsed.success) {
      const why = reply.timedOut
        ? `no answer in ${timeoutS} s`
        : (reply.error?.message ?? z.prettifyError(parsed.error));
      throw new DenvError('controller_failed', `tools/list in sandbox ${sandboxId} failed: ${why}`);
    }
    tools.push(...parsed.data.tools);
    cursor = parsed.data.nextCursor;
    if (cursor === undefined) return tools;
  }
  throw new DenvError(
    'controller_failed',
    `tools/list in sandbox ${sandboxId} goes on after ${maxPages} pages`,
  );
}
