import type { Grader, Task } from '../contracts/task';
import { DenvError } from '../denv/errors';
import { isForkable } from './ways';

/** What a rollout needs to know of its task; the rest stays in the blob store. */
export interface TaskFacts {
  setupCommands: number;
  solutionCommands: number;
  verifyTimeoutS: number;
  noVerdict: 'unscored' | 'zero';
  /** The agent is offered `checkpoint` and `rollback`. */
  checkpointTools?: true;
  /** No version of its sandbox holds all of its world. */
  unforkable?: true;
  /** There when a HUD environment gives the task. */
  hud?: { startTimeoutS: number; gradeTimeoutS: number; noGrade: 'unscored' | 'zero' };
  /** Left out where the `verifier` alone gives the reward. */
  grading?: GradingFacts;
}

export interface GradingFacts {
  combine: 'weighted' | 'any' | 'all';
  graders: GraderFacts[];
}

export interface GraderFacts {
  name: string;
  kind: Grader['kind'];
  weight: number;
  /** Its place in the task's list; null for one that was not asked for by name. */
  index: number | null;
  /** Of one command or call. */
  timeoutS: number;
  /** Questions that a judge asks. */
  criteria: number;
  /** False: kept beside the reward, whatever it is. */
  counts: boolean;
}

const defaultStartTimeoutS = 3600;
const defaultGradeTimeoutS = 7200;
const defaultCommandTimeoutS = 600;

export function toTaskFacts(task: Task): TaskFacts {
  const { hud, verifier } = task;
  const grading = toGradingFacts(task);
  return {
    setupCommands: task.setup?.length ?? 0,
    solutionCommands: task.solution?.length ?? 0,
    verifyTimeoutS: verifier?.timeoutS ?? defaultCommandTimeoutS,
    noVerdict: verifier?.noVerdict ?? 'unscored',
    ...(hud
      ? {
          hud: {
            startTimeoutS: hud.startTimeoutS ?? defaultStartTimeoutS,
            gradeTimeoutS: hud.gradeTimeoutS ?? defaultGradeTimeoutS,
            noGrade: hud.noGrade ?? 'unscored',
          },
        }
      : {}),
    ...(grading ? { grading } : {}),
    ...(task.checkpointTools ? { checkpointTools: true as const } : {}),
    ...(!isForkable(task) ? { unforkable: true as const } : {}),
  };
}

export interface RepeatedGrader {
  index: number;
  field: 'name' | 'kind';
  value: string;
}

/** Finds graders that cannot be told from one before them: of the same name, or of a kind that is asked only once. */
export function findRepeatedGraders(
  graders: { kind?: unknown; name?: unknown }[],
): RepeatedGrader[] {
  const names = new Set<unknown>();
  const kinds = new Set<unknown>();
  return graders.flatMap(({ kind, name = kind }, index): RepeatedGrader[] => {
    if (kind === undefined) return [];
    const sameName = names.has(name);
    const sameKind = (kind === 'verify' || kind === 'hud') && kinds.has(kind);
    names.add(name);
    kinds.add(kind);
    if (sameName) return [{ index, field: 'name', value: String(name) }];
    return sameKind ? [{ index, field: 'kind', value: kind }] : [];
  });
}

/** @throws DenvError invalid_request when two graders would give the same named reward */
export function refuseRepeatedGraders(task: Task): void {
  const [again] = findRepeatedGraders(toGradingFacts(task)?.graders ?? []);
  if (!again) return;
  const what =
    again.field === 'name' ? `the name ${again.value}` : `a grader of kind ${again.value}`;
  throw new DenvError('invalid_request', `task ${task.id}: grading has ${what} twice`);
}

/** The kinds of graders that a rollout of the task asks, in order. */
export const graderKinds = (task: Task): Grader['kind'][] =>
  toGradingFacts(task)?.graders.map(({ kind }) => kind) ?? ['verify'];

function toGradingFacts(task: Task): GradingFacts | null {
  if (task.grading) {
    const { combine = 'weighted', graders } = task.grading;
    return { combine, graders: graders.map((grader, index) => toGraderFacts(task, grader, index)) };
  }
  if (!task.hud) return null;
  const hud = toGraderFacts(task, { kind: 'hud' }, null);
  if (!task.verifier) return { combine: 'weighted', graders: [hud] };
  const verify = toGraderFacts(task, { kind: 'verify' }, null);
  return { combine: 'weighted', graders: [verify, { ...hud, counts: false }] };
}

function toGraderFacts(task: Task, grader: Grader, index: number | null): GraderFacts {
  return {
    name: grader.name ?? grader.kind,
    kind: grader.kind,
    weight: grader.weight ?? 1,
    index,
    timeoutS: graderTimeoutS(task, grader),
    criteria: grader.kind === 'judge' ? grader.criteria.length : 0,
    counts: true,
  };
}

function graderTimeoutS({ hud, verifier }: Task, grader: Grader): number {
  switch (grader.kind) {
    case 'verify':
      return verifier?.timeoutS ?? defaultCommandTimeoutS;
    case 'hud':
      return hud?.gradeTimeoutS ?? defaultGradeTimeoutS;
    case 'bash':
      return grader.timeoutS ?? defaultCommandTimeoutS;
    case 'judge':
      return defaultCommandTimeoutS;
  }
}
