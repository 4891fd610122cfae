import { z } from 'zod';
import type { TrajectoryEntry } from '../contracts/trajectory';
import { DenvError } from '../denv/errors';
import type { Tool } from './support/agent-context';
import { activity, held } from './support/heartbeat';
import type { Parts } from './support/parts';
import { readReply } from './trajectory';

export const checkpointTool = 'checkpoint';
export const rollbackTool = 'rollback';

const nameSchema = { type: 'string', description: 'Name of the checkpoint', maxLength: 64 };

/** Two tools that an agent may be offered beside those of its controller. The controller does not know them. */
export const checkpointTools: Tool[] = [
  {
    name: checkpointTool,
    description:
      'Keeps the sandbox as it is now under a name, so that rollback can bring it back. A name given twice means the later one.',
    inputSchema: { type: 'object', properties: { name: nameSchema } },
  },
  {
    name: rollbackTool,
    description:
      'Brings all files of the sandbox back to a checkpoint of yours. Running programs start anew; effects outside the sandbox, and this conversation, stay.',
    inputSchema: { type: 'object', properties: { name: nameSchema }, required: ['name'] },
  },
];

/** A checkpoint without a name has this one. */
const defaultName = 'checkpoint';

const Arguments = z.object({ name: z.string().min(1).max(64).default(defaultName) });

interface OwnCall {
  modelKey: string;
  index: number;
}

export interface OwnCallInput extends OwnCall {
  key: string;
  sandboxId: string;
  rolloutId: string;
  leaseS: number;
}

export interface AnswerInput extends OwnCall {
  step: number;
  text: string;
  isError: boolean;
}

export function checkpointToolActivities({ denv, documents, owner }: Parts) {
  return {
    /**
     * Makes the activity's part of a call of one of our tools. For `checkpoint` it freezes the sandbox, idempotent by `key`; for
     * `rollback` it reads the name. @returns `name` null when the arguments are not what the tool takes
     */
    ownCall: activity(
      async (
        input: OwnCallInput,
        signal: AbortSignal,
      ): Promise<{ name: string | null; version?: string }> => {
        const call = (await readReply(documents, input.modelKey)).toolCalls[input.index];
        const parsed = Arguments.safeParse(call?.arguments);
        if (!call || !parsed.success) return { name: null };
        const { name } = parsed.data;
        if (call.name !== checkpointTool) return { name };
        const { key, sandboxId, rolloutId } = input;
        const version = await held(denv, input, key, () =>
          denv.snapshot(sandboxId, { labels: { owner, rolloutId } }, { key, signal }),
        );
        return { name, version: version.id };
      },
    ),

    /** Writes the observation of such a call. Idempotent. @returns blob ref of the entry */
    answerCall: activity(async (input: AnswerInput): Promise<{ ref: string }> => {
      const call = (await readReply(documents, input.modelKey)).toolCalls[input.index];
      const { step, text, isError } = input;
      const entry: TrajectoryEntry = {
        type: 'observation',
        step,
        observation: {
          toolCallId: call?.id ?? '',
          name: call?.name ?? '',
          isError,
          content: [{ type: 'text', text }],
          durationS: 0,
        },
      };
      return { ref: await documents.put(entry) };
    }),
  };
}

/** @throws DenvError invalid_request when the controller has tools of these names */
export function withCheckpointTools(tools: Tool[]): Tool[] {
  const own = new Set(checkpointTools.map(({ name }) => name));
  const taken = tools.find(({ name }) => own.has(name));
  if (!taken) return [...tools, ...checkpointTools];
  throw new DenvError(
    'invalid_request',
    `checkpointTools: the controller has a tool of its own that is named ${taken.name}`,
  );
}
