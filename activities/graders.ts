import { PackedTask } from '../contracts/task';
import type { Grader } from '../contracts/task';
import { DenvError } from '../denv/errors';
import { gradeOf } from './support/grades';
import type { Grade } from './support/grades';
import { activity, held } from './support/heartbeat';
import { goneGrade } from './hud';
import type { Parts } from './support/parts';
import { stoppedInside, withEvidence } from './support/stop-evidence';

export interface RunGraderInput {
  key: string;
  sandboxId: string;
  leaseS: number;
  taskRef: string;
  /** Place of the grader in the task's list. */
  index: number;
  timeoutS: number;
}

/** A login shell, as HUD's graders have it, where there is bash. */
const shell = 'if command -v bash >/dev/null 2>&1; then exec bash -lc "$1"; fi; exec sh -c "$1"';

const tailLength = 4000;

export function graderActivities({ denv, documents }: Parts) {
  return {
    /**
     * Runs a grader of kind `bash` in the agent's sandbox: exit code 0 is 1, any other 0, and one that is killed gives no reward.
     * Idempotent by `key`.
     * @throws SandboxStopped from outside, SandboxNotFound, OutcomeUnknown, CapabilityMissing (final)
     */
    runGrader: activity(async (input: RunGraderInput, signal: AbortSignal): Promise<Grade> => {
      const { key, sandboxId, timeoutS } = input;
      const { task } = await documents.get(PackedTask, input.taskRef);
      const { command, cwd } = graderOf(task.grading?.graders[input.index], 'bash', input);
      const request = {
        argv: ['sh', '-c', shell, 'grader', command],
        timeoutS,
        ...(cwd === undefined ? {} : { cwd }),
      };
      try {
        const reply = await withEvidence(denv, sandboxId, () =>
          held(denv, input, key, () => denv.exec(sandboxId, request, { key, signal })),
        );
        const { exitCode, timedOut, durationS, stdout, stderr } = reply;
        const outputTail = [stdout, stderr]
          .map((text) => text.slice(-tailLength))
          .join('\n')
          .trim();
        const killed = timedOut ? `killed after ${timeoutS} s` : 'killed';
        const said =
          exitCode === null
            ? { reward: null, rewards: {}, summary: `the command was ${killed}` }
            : { reward: exitCode === 0 ? 1 : 0, rewards: {}, summary: `exit code ${exitCode}` };
        const evidence = {
          principal: 'sandbox',
          command,
          exitCode,
          timedOut,
          durationS,
          outputTail,
        };
        return await gradeOf(documents, said, evidence);
      } catch (error) {
        const stopped = stoppedInside(error);
        if (!stopped) throw error;
        return gradeOf(documents, goneGrade(stopped), { principal: 'sandbox', command, stopped });
      }
    }),
  };
}

/** The grader at a place of a task's list, which is of that kind. @throws DenvError invalid_request */
export function graderOf<K extends Grader['kind']>(
  grader: Grader | undefined,
  kind: K,
  { index, key }: { index: number; key: string },
): Extract<Grader, { kind: K }> {
  const isKind = (some: Grader): some is Extract<Grader, { kind: K }> => some.kind === kind;
  if (grader && isKind(grader)) return grader;
  throw new DenvError('invalid_request', `${key}: grader ${index} of the task is no ${kind}`);
}
