import type { BatchInput } from '../../contracts/batch';
import type { ModelChoice, RolloutInput } from '../../contracts/rollout';
import type { AgentSettings, CheckpointPolicy, KeepPolicy, Task } from '../../contracts/task';
import type { BlobStore } from '../../stores/blobs';
import { identityOf } from '../../rollouts/identity';
import { isModelName, modelNameRemedy } from '../../rollouts/model-names';
import { packTask } from '../../tasks/pack';
import { missingPrice, readPrice } from '../../tasks/prices';
import type { LoadedTaskset } from '../../tasks/loaded-taskset';
import { refusedWay, chooseWay } from '../../rollouts/ways';
import { UsageError } from '../errors';

/** What a person asked for, beside the taskset. */
export interface RunRequest {
  batchId: string;
  agent: RolloutInput['agent'];
  /** `openai/<name>` and its like, or `scripted`; not for agents that ask no model. */
  model?: string;
  baseUrl?: string;
  settings: AgentSettings;
  group: number;
  maxSteps?: number;
  /** Instead of what the tasks say. */
  checkpoints?: CheckpointPolicy;
  keep?: KeepPolicy;
  /** Only these; all when empty. */
  taskIds: string[];
}

/** A task of the taskset with the model that answers for it; checked, and nothing written anywhere. */
export interface ChosenTask {
  task: Task;
  model: ModelChoice;
}

export interface PlanPlaces {
  blobs: BlobStore;
  owner: string;
  /** The namespace has the search attributes of rollouts. */
  searchAttributes: boolean;
  priceFile: string;
}

export interface BatchPlan {
  batchId: string;
  taskset: string;
  rollouts: RolloutInput[];
}

/** One batch's rollouts. Larger ones come as several batches. */
const maxDeclared: BatchInput['declared'] = 1000;

/**
 * Chooses the tasks of a batch and checks that they can be run as asked. Reads the price file, changes nothing.
 * @throws UsageError, PriceError
 */
export async function chooseTasks(
  taskset: LoadedTaskset,
  request: RunRequest,
  priceFile: string,
): Promise<ChosenTask[]> {
  checkBatchId(request.batchId);
  const tasks = namedTasks(taskset, request);
  const declared = tasks.length * request.group;
  if (declared > maxDeclared) {
    throw new UsageError(
      `${tasks.length} tasks × group ${request.group} are ${declared} rollouts; a batch has at most ${maxDeclared}: choose tasks with --task, or run several batches`,
    );
  }
  const chosen: ChosenTask[] = [];
  for (const task of tasks) chosen.push({ task, model: await modelFor(task, request, priceFile) });
  return chosen;
}

/**
 * Declares the rollouts of a batch: `group` of each task, in the taskset's order. Packs what they need into the blob store;
 * starts nothing. Equal requests give equal rollouts.
 * @throws UsageError, PriceError, TreeRefusedError
 */
export async function planBatch(
  taskset: LoadedTaskset,
  request: RunRequest,
  places: PlanPlaces,
): Promise<BatchPlan> {
  const rollouts: RolloutInput[] = [];
  for (const { task, model } of await chooseTasks(taskset, request, places.priceFile)) {
    const { packed, taskRef } = await packTask(taskset, task, places.blobs);
    const limits = { ...task.limits, ...(request.maxSteps ? { maxSteps: request.maxSteps } : {}) };
    const keep = request.keep ?? task.keep;
    for (let index = 0; index < request.group; index++) {
      rollouts.push({
        rolloutId: `rollout/${request.batchId}/${task.id}/${index}`,
        batchId: request.batchId,
        taskId: task.id,
        index,
        taskRef,
        identity: identityOf({
          taskDigest: packed.digest,
          agent: request.agent,
          model: model.name,
          settings: model.settings,
          limits,
          index,
        }),
        owner: places.owner,
        agent: request.agent,
        model,
        limits,
        checkpoints: request.checkpoints ?? task.checkpoints ?? defaultCheckpoints(task),
        ...(keep ? { keep } : {}),
        onOutcomeUnknown: task.onOutcomeUnknown ?? (task.hud ? 'report' : 'restore'),
        searchAttributes: places.searchAttributes,
      });
    }
  }
  return { batchId: request.batchId, taskset: taskset.name, rollouts };
}

/** A HUD task whose continuations make its calls again has no use for versions. */
function defaultCheckpoints(task: Task): CheckpointPolicy {
  return task.hud && chooseWay(task).way !== 'snapshot' ? 'never' : 'step';
}

function checkBatchId(batchId: string): void {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(batchId)) return;
  throw new UsageError(`--batch ${batchId}: give letters, digits, ".", "_" and "-", at most 100`);
}

function namedTasks(taskset: LoadedTaskset, request: RunRequest): Task[] {
  const known = new Set(taskset.tasks.map(({ id }) => id));
  const unknown = request.taskIds.find((id) => !known.has(id));
  if (unknown !== undefined) {
    throw new UsageError(
      `--task ${unknown}: taskset ${taskset.name} has no such task; it has ${[...known].join(', ')}`,
    );
  }
  const tasks = taskset.tasks.filter(
    ({ id }) => request.taskIds.length === 0 || request.taskIds.includes(id),
  );
  const unsolved = request.agent === 'oracle' && tasks.find(({ solution }) => !solution);
  if (unsolved) {
    throw new UsageError(
      `--agent oracle runs each task's own solution, and task "${unsolved.id}" has no \`solution\`: add one, or choose others with --task`,
    );
  }
  const attached =
    request.agent === 'oracle' &&
    tasks.find(({ environment }) => environment.address !== undefined);
  if (attached) {
    throw new UsageError(
      `--agent oracle runs commands in a sandbox, and task "${attached.id}" is attached to by an address, where none can be run`,
    );
  }
  const inMemory =
    (request.checkpoints ?? 'never') !== 'never' &&
    tasks.find((task) => refusedWay(task, 'snapshot'));
  if (inMemory) {
    throw new UsageError(
      `--checkpoints ${request.checkpoints}: task "${inMemory.id}" cannot go on from one: ${refusedWay(inMemory, 'snapshot')}`,
    );
  }
  return tasks;
}

async function modelFor(task: Task, request: RunRequest, priceFile: string): Promise<ModelChoice> {
  if (request.agent !== 'model') return { name: '', settings: {}, price: null };
  const name = checkedModel(request.model);
  const settings = { ...task.agent, ...request.settings };
  const price = await readPrice(name, priceFile);
  if (price === null && task.limits?.maxCostUsd !== undefined) throw missingPrice(name, priceFile);
  return { name, ...(request.baseUrl ? { baseUrl: request.baseUrl } : {}), settings, price };
}

function checkedModel(model: string | undefined): string {
  if (model === undefined) {
    throw new UsageError(
      'which model? Give --model openai/<name> (any OpenAI-compatible endpoint, with --base-url), anthropic/<name>, google/<name> or scripted; or --agent oracle or nop, which ask none',
    );
  }
  if (isModelName(model)) return model;
  throw new UsageError(`--model ${model}: ${modelNameRemedy(model)}`);
}
