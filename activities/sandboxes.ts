import type { CreateSandboxRequest, ForkReply, Labels, Sandbox } from '../contracts/denv';
import { PackedTask } from '../contracts/task';
import { DenvError } from '../denv/errors';
import { forkChildKey, sandboxIdOf } from '../denv/ids';
import { toFinalFailure } from './failures';
import { activity, held } from './heartbeat';
import type { Parts } from './parts';
import { sendTrees } from './trees';

/** What a rollout needs to know of its task; the rest stays in the blob store. */
export interface TaskFacts {
  setupCommands: number;
  solutionCommands: number;
  verifyTimeoutS: number;
  noVerdict: 'unscored' | 'zero';
}

export interface StartedSandbox {
  sandboxId: string;
  /** What it started from: the untouched state. */
  version: string;
  task: TaskFacts;
}

/** How a sandbox came to be: its id follows from that before any reply. */
export interface SandboxOrigin {
  key: string;
  by: 'create' | 'fork';
}

export interface CreateSandboxInput {
  key: string;
  taskRef: string;
  rolloutId: string;
  leaseS: number;
}

export interface ForkVersionInput extends CreateSandboxInput {
  version: string;
}

export function sandboxActivities({ denv, blobs, documents, owner }: Parts) {
  const labels = (rolloutId: string): Labels => ({ owner, rolloutId });

  function createRequest(packed: PackedTask, input: CreateSandboxInput): CreateSandboxRequest {
    const { files: _paths, ...environment } = packed.task.environment;
    return {
      ...environment,
      egress: 'deny',
      labels: labels(input.rolloutId),
      leaseS: input.leaseS,
    };
  }

  return {
    /**
     * Starts a rollout's sandbox and waits until its controller answers. Idempotent by `key`: one key, one sandbox.
     * @throws ControllerFailed, CapabilityMissing, ImageNotFound, InvalidRequest (final); OverCapacity, DiskFull,
     *   DenvUnavailable (retryable)
     */
    createSandbox: activity(
      async (input: CreateSandboxInput, signal: AbortSignal): Promise<StartedSandbox> => {
        const packed = await documents.get(PackedTask, input.taskRef);
        const request = createRequest(packed, input);
        const sandbox = await held(denv, null, input.key, () =>
          sendTrees(blobs, packed.environmentFiles, (files) =>
            denv.createSandbox({ ...request, ...files }, { key: input.key, signal }),
          ),
        );
        return started(sandbox, packed);
      },
    ),

    /** Starts one sandbox from a version, services and data as they were there. Idempotent by `key`. */
    forkVersion: activity(
      async (input: ForkVersionInput, signal: AbortSignal): Promise<StartedSandbox> => {
        const packed = await documents.get(PackedTask, input.taskRef);
        const request = { count: 1, labels: labels(input.rolloutId), leaseS: input.leaseS };
        const reply = await held(denv, null, input.key, () =>
          denv.forkVersion(input.version, request, { key: input.key, signal }),
        );
        return { ...started(onlyChild(reply), packed), version: input.version };
      },
    ),

    /** Moves the end of a sandbox's lease. Idempotent. */
    renewLease: activity(
      async ({ sandboxId, leaseS }: { sandboxId: string; leaseS: number }): Promise<void> => {
        await denv.renew(sandboxId, { leaseS });
      },
    ),

    /**
     * Stops and removes a sandbox, also one whose create is still on its way. Deleting what is gone is success.
     */
    deleteSandbox: activity(async (origin: SandboxOrigin, signal: AbortSignal): Promise<void> => {
      const createKey = origin.by === 'create' ? origin.key : forkChildKey(origin.key, 0);
      await denv.deleteSandbox(sandboxIdOf(createKey), { signal });
    }),
  };
}

function started(sandbox: Sandbox, { task }: PackedTask): StartedSandbox {
  return {
    sandboxId: sandbox.id,
    version: sandbox.version,
    task: {
      setupCommands: task.setup?.length ?? 0,
      solutionCommands: task.solution?.length ?? 0,
      verifyTimeoutS: task.verifier?.timeoutS ?? 600,
      noVerdict: task.verifier?.noVerdict ?? 'unscored',
    },
  };
}

function onlyChild(reply: ForkReply): Sandbox {
  const child = reply.children[0];
  if (!child) throw new DenvError('internal', `a fork of ${reply.version} gave no child`);
  if ('sandbox' in child) return child.sandbox;
  const { code, message, details } = child.error;
  // The fork's outcome is kept with this child's failure in it: the same key would only tell it again.
  throw toFinalFailure(new DenvError(code, message, { details }));
}
