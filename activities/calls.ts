import type { CallReply, ExecReply } from '../contracts/denv';
import type { OutcomeUnknownPolicy } from '../contracts/task';
import { PackedTask } from '../contracts/task';
import type { ToolCall, TrajectoryEntry } from '../contracts/trajectory';
import { DenvError } from '../denv/errors';
import { toMs } from '../rollouts/documents';
import type { Documents } from '../rollouts/documents';
import { activity, held } from './support/heartbeat';
import { showReply, showText } from '../rollouts/trajectory/observations';
import type { Shown } from '../rollouts/trajectory/observations';
import type { Parts } from './support/parts';
import { withEvidence } from './support/stop-evidence';
import { readReply } from './trajectory';

export interface CallToolInput {
  key: string;
  sandboxId: string;
  leaseS: number;
  step: number;
  /** Key of the model call whose reply asks for it, and which of its tool calls this is. */
  modelKey: string;
  index: number;
  timeoutS: number;
  /** `changed`: only when something has changed since the last version, else that one is told. */
  snapshot?: 'before' | 'changed';
  onOutcomeUnknown: OutcomeUnknownPolicy;
}

export interface CallToolOutput {
  /** Blob ref of the observation, as an entry of the trajectory. */
  ref: string;
  durationS: number;
  /** The snapshot that was asked for. */
  version?: string;
}

export interface RunCommandInput {
  key: string;
  sandboxId: string;
  leaseS: number;
  taskRef: string;
  list: 'setup' | 'solution';
  index: number;
  timeoutS: number;
}

export interface RunCommandOutput {
  exitCode: number | null;
  timedOut: boolean;
  durationS: number;
  /** The end of its output, for messages. */
  outputTail: string;
  /** Blob ref of an observation of it, as an entry of the trajectory. */
  ref: string;
}

export function callActivities(parts: Parts) {
  const { denv, blobs, documents } = parts;

  return {
    /** As `makeToolCall`. */
    callTool: activity((input: CallToolInput, signal: AbortSignal) =>
      makeToolCall(parts, input, signal),
    ),

    /**
     * Runs one of a task's own commands (set-up, or the oracle's solution) to its end. Its exit code is data. Idempotent by
     * `key`.
     */
    runCommand: activity(
      async (input: RunCommandInput, signal: AbortSignal): Promise<RunCommandOutput> => {
        const { task } = await documents.get(PackedTask, input.taskRef);
        const argv = task[input.list]?.[input.index];
        if (!argv) {
          throw new DenvError(
            'invalid_request',
            `task ${task.id} has no ${input.list} ${input.index}`,
          );
        }
        const reply = await withEvidence(denv, input.sandboxId, () =>
          held(denv, input, input.key, () =>
            denv.exec(
              input.sandboxId,
              { argv, timeoutS: input.timeoutS },
              { key: input.key, signal },
            ),
          ),
        );
        const text = commandText(argv, reply);
        const shown = await showText(blobs, text, reply.exitCode !== 0);
        const call = { id: `${input.list}/${input.index}`, name: 'exec' };
        return {
          exitCode: reply.exitCode,
          timedOut: reply.timedOut,
          durationS: toMs(reply.durationS),
          outputTail: (reply.stderr || reply.stdout).slice(-500),
          ref: await keep(documents, input.index + 1, call, {
            ...shown,
            durationS: reply.durationS,
          }),
        };
      },
    ),
  };
}

/**
 * Makes one tool call of a recorded model reply, with the snapshot before it if asked for. Idempotent by `key`: a retry
 * waits for the same call. Arguments that are not a JSON object, and errors of the tool, are observations.
 * @throws SandboxStopped with evidence, SandboxNotFound, OutcomeUnknown with the version taken before (all final)
 */
export async function makeToolCall(
  parts: Parts,
  input: CallToolInput,
  signal: AbortSignal,
): Promise<CallToolOutput> {
  const { denv, blobs, documents } = parts;
  const call = await toolCallOf(parts, input);
  if (call.arguments === null) {
    const text = `The arguments of this call are not a JSON object, so it was not made: ${call.rawArguments ?? ''}`;
    const shown = await showText(blobs, text, true);
    return {
      ref: await keep(documents, input.step, call, { ...shown, durationS: 0 }),
      durationS: 0,
    };
  }
  const request = {
    method: 'tools/call' as const,
    params: { name: call.name, arguments: call.arguments },
    timeoutS: input.timeoutS,
    ...(input.snapshot ? { snapshot: input.snapshot } : {}),
  };
  let reply: CallReply;
  try {
    reply = await withEvidence(denv, input.sandboxId, () =>
      held(denv, input, input.key, () =>
        denv.call(input.sandboxId, request, { key: input.key, signal }),
      ),
    );
  } catch (error) {
    if (!isUnknown(error) || input.onOutcomeUnknown !== 'report') throw error;
    const shown = await showText(blobs, unknownText, true);
    return {
      ref: await keep(documents, input.step, call, { ...shown, durationS: 0 }),
      durationS: 0,
    };
  }
  const shown = await showReply(blobs, reply, input.timeoutS);
  // A call that was cut at its limit has used all of it.
  const durationS = reply.timedOut ? Math.max(reply.durationS, input.timeoutS) : reply.durationS;
  const { version } = reply;
  const ref = await keep(documents, input.step, call, { ...shown, durationS }, version);
  return { ref, durationS: toMs(durationS), ...(version ? { version } : {}) };
}

const keep = (
  documents: Documents,
  step: number,
  call: Pick<ToolCall, 'id' | 'name'>,
  observed: Shown & { durationS: number },
  version?: string,
): Promise<string> =>
  documents.put({
    type: 'observation',
    step,
    observation: { toolCallId: call.id, name: call.name, ...observed },
    ...(version ? { version } : {}),
  } satisfies TrajectoryEntry);

/** The observation of such a call, with the policy `report`. */
export const unknownText =
  'The outcome of this call is unknown: the machine that ran it restarted while it was out, and it may or may not have had its effect.';

const isUnknown = (error: unknown): boolean =>
  error instanceof DenvError && error.code === 'outcome_unknown';

async function toolCallOf({ documents }: Parts, input: CallToolInput): Promise<ToolCall> {
  const { toolCalls } = await readReply(documents, input.modelKey);
  const call = toolCalls[input.index];
  if (!call) {
    throw new DenvError(
      'invalid_request',
      `the reply of ${input.modelKey} has no tool call ${input.index}`,
    );
  }
  return call;
}

function commandText(argv: string[], reply: ExecReply): string {
  const end = reply.timedOut ? 'killed at its time limit' : `exit code ${reply.exitCode}`;
  return [`$ ${argv.join(' ')}`, reply.stdout, reply.stderr, `[${end}]`]
    .filter((line) => line !== '')
    .join('\n');
}
