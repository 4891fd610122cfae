import type { Complaint, FieldPath } from './refusals';
import { nestingComplaint } from './hud/config';
import { isModelName, modelNameRemedy } from '../rollouts/model-names';
import { findRepeatedGraders } from '../rollouts/task-facts';
import { hudInMemory, refusedWay } from '../rollouts/ways';

/**
 * Complains of fields that exclude each other: HUD tasks and their controllers, targets that start nothing, graders. The task is
 * the text as it was written, so no field need have its type.
 */
export function combinationComplaints(task: unknown): Complaint[] {
  const value = (...path: FieldPath): unknown =>
    path.reduce<unknown>((v, key) => (isObject(v) ? Reflect.get(v, key) : undefined), task);
  const limits = value('limits');
  return [
    ...hudComplaints(value),
    ...continuationComplaints(value),
    ...(value('environment', 'address') === undefined ? [] : attachedComplaints(value)),
    ...targetComplaints(value),
    ...graderComplaints(value('grading', 'graders')),
    ...nestingComplaint(isObject(limits) ? pickNumbers(limits) : {}, {
      agent: ['limits', 'agentTimeoutS'],
      run: 'limits.runTimeoutS',
    }),
  ];
}

type Look = (...path: FieldPath) => unknown;

function hudComplaints(value: Look): Complaint[] {
  const kind = value('environment', 'controller', 'kind');
  if (value('hud') === undefined) {
    if (kind !== 'hud') return [];
    const remedy = 'give a `hud` with the `id` of a task, or another controller';
    return [{ path: ['hud'], message: 'missing: its controller is a HUD environment', remedy }];
  }
  const complaints: Complaint[] = [];
  const needsOne = value('environment', 'version') === undefined;
  if (kind !== 'hud' && (kind !== undefined || needsOne)) {
    complaints.push({
      path: ['environment', 'controller'],
      message: 'a HUD task needs a controller of kind `hud`',
      remedy: 'say `controller: {kind: hud, command: […]}`, or a `runtime` in place of it',
    });
  }
  if (value('onOutcomeUnknown') === 'restore') {
    const remedy = 'say `report` or `fail`, or leave it out';
    complaints.push({ path: ['onOutcomeUnknown'], message: `\`restore\`: ${hudInMemory}`, remedy });
  }
  const checkpoints = value('checkpoints');
  if (
    checkpoints !== undefined &&
    checkpoints !== 'never' &&
    refusedWay(gradedBy(value), 'snapshot')
  ) {
    const remedy = 'say `never`, or leave it out';
    complaints.push({ path: ['checkpoints'], message: hudInMemory, remedy });
  }
  return complaints;
}

/** Complains of ways to continue that would lose what the reward is made of. */
function continuationComplaints(value: Look): Complaint[] {
  const complaints: Complaint[] = [];
  const refused =
    value('continuation') === 'snapshot' ? refusedWay(gradedBy(value), 'snapshot') : null;
  if (refused !== null) {
    const remedy = 'say `replay`, or have the reward come from a `verifier` alone';
    complaints.push({ path: ['continuation'], message: refused, remedy });
  }
  if (value('checkpointTools') === true && value('hud') !== undefined) {
    const message = `an agent cannot roll back a HUD task: ${hudInMemory}`;
    complaints.push({ path: ['checkpointTools'], message, remedy: 'leave it out' });
  }
  return complaints;
}

/** Returns the fields that say what gives the reward of a task, as the task was written. */
function gradedBy(value: Look): Parameters<typeof refusedWay>[0] {
  const graders = value('grading', 'graders');
  return {
    hud: value('hud'),
    verifier: value('verifier'),
    ...(Array.isArray(graders) ? { grading: { graders: graders.map(fieldsIn) } } : {}),
  };
}

/** Complains of what an environment at an address cannot have: nothing is started there, and only its HUD channel is reached. */
function attachedComplaints(value: Look): Complaint[] {
  const fields: FieldPath[] = [
    ...['files', 'env', 'workdir', 'caps'].map((field) => ['environment', field]),
    ['environment', 'controller', 'command'],
    ['setup'],
    ['verifier'],
  ];
  const graders = value('grading', 'graders');
  const bash = Array.isArray(graders)
    ? graders.flatMap((grader: unknown, i): FieldPath[] =>
        isObject(grader) && grader['kind'] === 'bash' ? [['grading', 'graders', i, 'kind']] : [],
      )
    : [];
  return [...fields.filter((path) => value(...path) !== undefined), ...bash].map((path) => ({
    path,
    message: 'an environment that is attached to by `address` is reached by its HUD channel alone',
    remedy: 'leave it out, or have the environment started here',
  }));
}

function targetComplaints(value: Look): Complaint[] {
  const target = value('environment', 'target');
  const attached = value('environment', 'address') !== undefined;
  if (target === 'tcp' && !attached) {
    const remedy = 'give `address: host:port`';
    return [{ path: ['environment', 'target'], message: '`tcp` needs an address', remedy }];
  }
  if (attached && target !== 'tcp') {
    const message = 'an address is for target `tcp`';
    return [{ path: ['environment', 'address'], message, remedy: 'say `target: tcp` beside it' }];
  }
  if (value('environment', 'shared') !== undefined && !attached) {
    const message = 'only an `address` is shared';
    return [{ path: ['environment', 'shared'], message, remedy: 'leave it out' }];
  }
  return [];
}

function graderComplaints(graders: unknown): Complaint[] {
  if (!Array.isArray(graders)) return [];
  const repeated = new Map(
    findRepeatedGraders(graders.map(fieldsIn)).map((one) => [one.index, one]),
  );
  return graders.map(fieldsIn).flatMap((grader, i): Complaint[] => {
    const { kind, model } = grader;
    const path: FieldPath = ['grading', 'graders', i];
    const again = repeated.get(i);
    if (again) {
      const { field, value } = again;
      const remedy =
        field === 'name' ? 'give each grader its own name' : 'leave it out: it is asked once';
      return [{ path: [...path, field], message: `${value}: used before`, remedy }];
    }
    if (kind !== 'judge' || typeof model !== 'string' || isModelName(model)) return [];
    const message = `${JSON.stringify(model)} says no provider`;
    return [{ path: [...path, 'model'], message, remedy: modelNameRemedy(model) }];
  });
}

function pickNumbers(limits: Record<string, unknown>) {
  const number = (name: string) => (typeof limits[name] === 'number' ? limits[name] : undefined);
  return { agentTimeoutS: number('agentTimeoutS'), runTimeoutS: number('runTimeoutS') };
}

const fieldsIn = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
