import { z } from 'zod';
import { HudErrorKind, HudGradeResult } from '../contracts/denv';
import type { CallReply, StopEvidence } from '../contracts/denv';
import { PackedTask } from '../contracts/task';
import type { HudTask } from '../contracts/task';
import { DenvError } from '../denv/errors';
import { toMs } from '../rollouts/documents';
import { FoundError } from './support/failures';
import { answerOf, gradeOf, innerRewards } from './support/grades';
import type { Grade } from './support/grades';
import { activity, held } from './support/heartbeat';
import { openingOf } from './model/hud-prompt';
import type { Parts } from './support/parts';
import { stoppedInside, withEvidence } from './support/stop-evidence';

export interface HudCallInput {
  key: string;
  sandboxId: string;
  leaseS: number;
  taskRef: string;
  timeoutS: number;
}

export interface StartTaskInput extends HudCallInput {
  /** A model is going to be asked, so there must be something to ask it. */
  needsPrompt: boolean;
}

export interface StartTaskOutput {
  /** Blob ref of the Opening; null where the environment gave no prompt. */
  promptRef: string | null;
  durationS: number;
}

export interface GradeTaskInput extends HudCallInput {
  /** Head of the trajectory, for the agent's answer. */
  head: string;
}

export function hudActivities({ denv, blobs, documents }: Parts) {
  async function hudTaskOf(taskRef: string): Promise<{ hud: HudTask; prompt?: string }> {
    const { task } = await documents.get(PackedTask, taskRef);
    const { hud, prompt } = task;
    if (!hud) throw new DenvError('invalid_request', `task ${task.id} is no HUD task`);
    return { hud, prompt };
  }

  return {
    /**
     * Starts a HUD environment's task, and keeps the prompt that it gives. At most once in a sandbox's life: idempotent by `key`.
     * @throws InvalidRequest, CapabilityMissing, SetupFailed (final, the task's fault); ControllerFailed, OutcomeUnknown,
     *   SandboxStopped (final)
     */
    startTask: activity(
      async (input: StartTaskInput, signal: AbortSignal): Promise<StartTaskOutput> => {
        const { key, sandboxId, timeoutS } = input;
        const { hud, prompt } = await hudTaskOf(input.taskRef);
        const params = {
          id: hud.id,
          args: hud.args ?? {},
          ...(hud.capabilities ? { capabilities: hud.capabilities } : {}),
          ...(hud.env === undefined ? {} : { env: hud.env }),
        };
        const reply = await withEvidence(denv, sandboxId, () =>
          held(denv, input, key, () =>
            denv.call(sandboxId, { method: 'hud/start', params, timeoutS }, { key, signal }),
          ),
        );
        if (!reply.result) throw startError(reply, hud, timeoutS);
        const opening = await openingOf(blobs, reply.result.prompt ?? prompt);
        if (!opening && input.needsPrompt) {
          throw new DenvError(
            'invalid_request',
            `task ${hud.id} starts without a prompt: it is not for a model`,
          );
        }
        const promptRef = opening ? await documents.put(opening) : null;
        return { promptRef, durationS: toMs(reply.durationS) };
      },
    ),

    /**
     * Asks a HUD environment for its grade of the agent's answer. At most once in a sandbox's life: idempotent by `key`, and
     * whatever it answered stays. A grader that raises, or gives no score, is a result without a reward.
     * @throws OutcomeUnknown (final) the grade is lost; ControllerFailed, InvalidRequest, SandboxStopped from outside (final)
     */
    gradeTask: activity(async (input: GradeTaskInput, signal: AbortSignal): Promise<Grade> => {
      const { key, sandboxId, timeoutS } = input;
      const { hud } = await hudTaskOf(input.taskRef);
      const answer = await answerOf(documents, input.head);
      const params = { answer, ...(hud.verifier ? { verifier: hud.verifier } : {}) };
      let reply: CallReply;
      try {
        reply = await withEvidence(denv, sandboxId, () =>
          held(denv, input, key, () =>
            denv.call(sandboxId, { method: 'hud/grade', params, timeoutS }, { key, signal }),
          ),
        );
      } catch (error) {
        const stopped = stoppedInside(error);
        if (!stopped) throw error;
        return gradeOf(documents, goneGrade(stopped), { principal: 'controller', stopped });
      }
      if (kindOf(reply) === 'bad_task') {
        throw new DenvError('invalid_request', `the grade was refused: ${reply.error?.message}`);
      }
      return gradeOf(documents, saidBy(reply, timeoutS), { principal: 'controller', ...reply });
    }),
  };
}

/** Nothing is left to ask: the agent ended it. */
export const goneGrade = ({ what, detail }: StopEvidence): Omit<Grade, 'evidenceRef'> => ({
  reward: null,
  rewards: {},
  summary: `the sandbox had been stopped from inside: ${what}${detail ? ` (${detail})` : ''}`,
  gone: true,
});

function startError(reply: CallReply, { id }: HudTask, timeoutS: number): Error {
  if (reply.timedOut) {
    return new FoundError('SetupFailed', `the start of task ${id} had no end in ${timeoutS} s`);
  }
  const message = `the start of task ${id} failed: ${reply.error?.message ?? 'no result'}`;
  switch (kindOf(reply)) {
    case 'bad_task':
      return new DenvError('invalid_request', message);
    case 'raised':
      return new FoundError('SetupFailed', message);
    case 'protocol':
    case null:
      return new DenvError('controller_failed', message);
  }
}

function kindOf({ error }: CallReply): HudErrorKind | null {
  const parsed = z.looseObject({ kind: HudErrorKind }).safeParse(error?.data);
  return parsed.success ? parsed.data.kind : null;
}

const Subscore = z.looseObject({ name: z.string(), value: z.number() });

/** Those with a finite value. */
function subscoresOf(subscores: unknown): [name: string, value: number][] {
  const given: unknown[] = Array.isArray(subscores) ? subscores : [];
  return given.flatMap((subscore) => {
    const { success, data } = Subscore.safeParse(subscore);
    return success ? [[data.name, data.value]] : [];
  });
}

function saidBy(reply: CallReply, timeoutS: number): Omit<Grade, 'evidenceRef'> {
  const without = (summary: string) => ({ reward: null, rewards: {}, summary });
  if (reply.timedOut) return without(`the grade had no end in ${timeoutS} s`);
  if (reply.error) return without(`the grader failed: ${reply.error.message}`);
  const parsed = HudGradeResult.safeParse(reply.result);
  if (!parsed.success) return without('the grader gave no finite score');
  const frame = parsed.data.verifier ?? parsed.data.grade;
  const { rewards, dropped } = innerRewards(subscoresOf(frame.subscores));
  const more = dropped > 0 ? `, ${dropped} more subscores in the evidence` : '';
  if (frame.isError === true) {
    const why =
      typeof frame.content === 'string' && frame.content !== '' ? frame.content : 'isError';
    return { reward: null, rewards, summary: `the grader says that it failed: ${why}` };
  }
  return { reward: frame.score, rewards, summary: `score ${frame.score}${more}` };
}
