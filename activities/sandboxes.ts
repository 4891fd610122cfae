import type { CreateSandboxRequest, ForkReply, Labels, Sandbox } from '../contracts/denv';
import { PackedTask } from '../contracts/task';
import type { Task } from '../contracts/task';
import { DenvError } from '../denv/errors';
import { forkChildKey, sandboxIdOf } from '../denv/ids';
import { refuseUnforkable } from '../rollouts/ways';
import { toFinalFailure } from './support/failures';
import { activity, held } from './support/heartbeat';
import type { Parts } from './support/parts';
import { refuseUngradable } from './support/target-needs';
import { refuseRepeatedGraders, toTaskFacts } from '../rollouts/task-facts';
import type { TaskFacts } from '../rollouts/task-facts';
import { sendTrees } from './support/trees';

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

export interface TakeSnapshotInput {
  key: string;
  sandboxId: string;
  rolloutId: string;
  leaseS: number;
}

export function sandboxActivities({ denv, blobs, documents, owner }: Parts) {
  const labels = (rolloutId: string): Labels => ({ owner, rolloutId });

  function createRequest(packed: PackedTask, input: CreateSandboxInput): CreateSandboxRequest {
    const { files: _paths, ...environment } = packed.task.environment;
    const controller =
      environment.controller ?? (packed.task.hud ? { kind: 'hud' as const } : null);
    return {
      ...environment,
      ...(controller ? { controller } : {}),
      // What runs at an address is somebody else's, its network too.
      ...(environment.address === undefined ? { egress: 'deny' as const } : {}),
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
        refuseRepeatedGraders(packed.task);
        refuseCheckpointTools(packed.task);
        await refuseUngradable(denv, packed.task);
        const request = createRequest(packed, input);
        const sandbox = await held(denv, null, input.key, () =>
          sendTrees({ denv, blobs, signal }, packed.environmentFiles, (files) =>
            denv.createSandbox({ ...request, ...files }, { key: input.key, signal }),
          ),
        );
        return started(sandbox, packed);
      },
    ),

    /**
     * Starts one sandbox from a version, services and data as they were there. Idempotent by `key`.
     * @throws InvalidRequest (final) a version holds too little of a HUD task's world
     */
    forkVersion: activity(
      async (input: ForkVersionInput, signal: AbortSignal): Promise<StartedSandbox> => {
        const packed = await documents.get(PackedTask, input.taskRef);
        refuseUnforkable(packed.task);
        const request = { count: 1, labels: labels(input.rolloutId), leaseS: input.leaseS };
        const reply = await held(denv, null, input.key, () =>
          denv.forkVersion(input.version, request, { key: input.key, signal }),
        );
        return { ...started(onlyChild(reply), packed), version: input.version };
      },
    ),

    /**
     * Freezes a sandbox as it is now; one that has stopped too. Idempotent by `key`.
     * @throws SandboxNotFound, CapabilityMissing (final)
     */
    takeSnapshot: activity(
      async (input: TakeSnapshotInput, signal: AbortSignal): Promise<{ version: string }> => {
        const { key, sandboxId } = input;
        const version = await held(denv, input, key, () =>
          denv.snapshot(sandboxId, { labels: labels(input.rolloutId) }, { key, signal }),
        );
        return { version: version.id };
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
    task: toTaskFacts(task),
  };
}

/** What a HUD task has in memory would be lost with each rollback. */
function refuseCheckpointTools({ id, hud, checkpointTools }: Task): void {
  if (!hud || !checkpointTools) return;
  throw new DenvError(
    'capability_missing',
    `task ${id}: checkpointTools: a HUD task lives in the memory of its environment, which no rollback would bring back`,
  );
}

function onlyChild(reply: ForkReply): Sandbox {
  const child = reply.children[0];
  if (!child) throw new DenvError('internal', `a fork of ${reply.version} gave no child`);
  if ('sandbox' in child) return child.sandbox;
  const { code, message, details } = child.error;
  // The fork's outcome is kept with this child's failure in it: the same key would only tell it again.
  throw toFinalFailure(new DenvError(code, message, { details }));
}
