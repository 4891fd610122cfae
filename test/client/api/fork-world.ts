import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Rollouts } from '../../../client/api/connect';
import { inputName } from '../../../rollouts/inputs';
import { createDocuments } from '../../../rollouts/documents';
import type { Documents } from '../../../rollouts/documents';
import { appendEntries } from '../../../rollouts/trajectory/chain';
import type {
  Checkpoint,
  RolloutInput,
  RolloutResult,
  RolloutStatus,
} from '../../../contracts/rollout';
import type { PackedTask, Task } from '../../../contracts/task';
import type { ModelReply, TrajectoryEntry } from '../../../contracts/trajectory';
import { DenvError } from '../../../denv/errors';
import { openLedger } from '../../../stores/sqlite/ledger';
import type { Ledger } from '../../../stores/ledger';
import { MemoryBlobs } from '../../fakes/memory-blobs';
import { declaredRollout, rolloutResult } from '../../stores/results';

/** Records of rollouts, and a Temporal that remembers what it was asked to start. */
export interface ForkWorld {
  rollouts: Rollouts;
  blobs: MemoryBlobs;
  documents: Documents;
  ledger: Ledger;
  /** Versions that are gone. */
  expired: Set<string>;
  /** Rollouts that run: what they answer to `status`, and to `fork`. */
  running: Map<string, { status: Partial<RolloutStatus>; taken: Checkpoint }>;
  started: { workflow: string; workflowId: string; input: unknown }[];
  close(): Promise<void>;
}

export async function forkWorld(): Promise<ForkWorld> {
  const dir = await mkdtemp(join(tmpdir(), 'forks-'));
  const ledger = await openLedger(join(dir, 'ledger.db'));
  const blobs = new MemoryBlobs();
  const documents = createDocuments(blobs);
  const started: ForkWorld['started'] = [];
  const expired = new Set<string>();
  const denv = {
    getVersion: (id: string) =>
      expired.has(id)
        ? Promise.reject(new DenvError('version_not_found', `no ${id}`))
        : Promise.resolve({ id }),
  };
  const running: ForkWorld['running'] = new Map();
  const temporal = {
    withDeadline: <T>(_deadline: number, ask: () => Promise<T>): Promise<T> => ask(),
    workflow: {
      getHandle: (workflowId: string) => ({
        query: () => Promise.resolve(running.get(workflowId)?.status),
        executeUpdate: () => Promise.resolve(running.get(workflowId)?.taken),
      }),
      start(workflow: string, { workflowId, args }: { workflowId: string; args: unknown[] }) {
        started.push({ workflow, workflowId, input: args[0] });
        return Promise.resolve();
      },
    },
  };
  return {
    rollouts: { blobs, documents, denv, ledger, temporal, taskQueue: 'q' } as unknown as Rollouts, // the rest is not asked
    blobs,
    documents,
    ledger,
    started,
    running,
    expired,
    async close() {
      await ledger.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export const task: Task = {
  id: 't',
  prompt: 'Do it.',
  environment: { image: 'host' },
  verifier: { image: 'host', command: ['true'] },
};

export const hudTask: Task = { id: 't', hud: { id: 'add' }, environment: { version: 'ver_0' } };

/** Three steps: a call with an answer each, and a last word; a checkpoint before the first two. */
export async function recordRollout(
  { blobs, documents, ledger }: ForkWorld,
  over: {
    rolloutId?: string;
    task?: Task;
    reward?: number | null;
    input?: Partial<RolloutInput>;
    said?: string[];
  } = {},
): Promise<{ input: RolloutInput; result: RolloutResult; heads: string[] }> {
  const { rolloutId = 'rollout/b/t/0', said = ['ls', 'cat a', 'done'] } = over;
  const packed: PackedTask = {
    id: 't',
    taskset: 's',
    digest: 'd',
    task: over.task ?? task,
    environmentFiles: [],
    verifierFiles: [],
  };
  const put = async (value: unknown) => (await blobs.put(Buffer.from(JSON.stringify(value)))).ref;
  const input: RolloutInput = {
    rolloutId,
    batchId: 'b',
    taskId: 't',
    index: 0,
    taskRef: await put(packed),
    identity: 'i',
    owner: 'o',
    agent: 'model',
    model: { name: 'openai/small', baseUrl: 'http://one/v1', settings: { seed: 5 }, price: null },
    limits: {},
    checkpoints: 'step',
    onOutcomeUnknown: 'restore',
    ...over.input,
  };
  await blobs.putIfAbsent(inputName(rolloutId), Buffer.from(JSON.stringify(input)));
  const { from } = input;
  const first = from?.step ?? 1;
  const opening: TrajectoryEntry[] = [
    { type: 'system', text: 'Be brief.' },
    { type: 'prompt', text: 'Do it.' },
  ];
  const heads = [from ? from.trajectory : await appendEntries(documents, '', opening)];
  for (const [i, text] of said.entries()) {
    const entries = stepEntries(first + i, text, text === 'done' ? null : `saw ${text}`);
    heads.push(await appendEntries(documents, heads[i] ?? '', entries));
  }
  const result = rolloutResult({
    rolloutId,
    reward: over.reward === undefined ? 0.5 : over.reward,
    outcome: over.reward === null ? 'unscored' : 'scored',
    steps: first + said.length - 1,
    trajectory: heads.at(-1) ?? '',
    checkpoints: said.slice(0, -1).map((_text, i) => ({
      step: first + i,
      version: `ver_${first + i}`,
      trajectory: heads[i] ?? '',
      spent: { tokens: 3 * i, costUsd: 0, workedS: i },
    })),
    lineage: {
      parentRolloutId: from?.parentRolloutId ?? null,
      step: from?.step ?? null,
      version: from?.version ?? null,
      restored: [],
    },
  });
  const parent = { parentRolloutId: from?.parentRolloutId ?? null, parentStep: from?.step ?? null };
  await ledger.declareRollouts([declaredRollout({ rolloutId, ...parent })]);
  await ledger.recordResult(result);
  return { input, result, heads };
}

export function replyEntry(
  step: number,
  text: string,
  over: Partial<ModelReply> = {},
): TrajectoryEntry {
  const calls =
    text === 'done' ? [] : [{ id: 'call_1', name: 'bash', arguments: { command: text } }];
  return {
    type: 'reply',
    step,
    reply: {
      text: text === 'done' ? 'It is done.' : '',
      toolCalls: calls,
      finishReason: calls.length > 0 ? 'tool_calls' : 'stop',
      usage: { promptTokens: 2, completionTokens: 1, costUsd: null },
      durationS: 0.5,
      model: 'small',
      ...over,
    },
  };
}

function stepEntries(step: number, text: string, seen: string | null): TrajectoryEntry[] {
  const reply = replyEntry(step, text);
  if (seen === null) return [reply];
  return [
    reply,
    {
      type: 'observation',
      step,
      version: `ver_${step}`,
      observation: {
        toolCallId: 'call_1',
        name: 'bash',
        isError: false,
        content: [{ type: 'text', text: seen }],
        durationS: 0.5,
      },
    },
  ];
}
