import { createHash, randomUUID } from 'node:crypto';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import type { WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { DefaultLogger, Runtime, Worker, bundleWorkflowCode } from '@temporalio/worker';
import type { RolloutInput, RolloutResult } from '../contracts/rollout';
import { createActivities } from '../activities';
import type { Dependencies } from '../activities';
import type { Task } from '../contracts/task';
import { settingsFrom } from '../client/settings';
import { findTemporalCli } from '../client/stack/temporal-cli';
import type { DenvClient } from '../denv/client';
import { createDirectoryBlobs } from '../stores/directory-blobs';
import type { BlobStore } from '../stores/blobs';
import type { Ledger } from '../stores/ledger';
import { openLedger } from '../stores/sqlite/ledger';
import { rollout } from '../workflows';
import { FakeDenv } from './fakes/fake-denv';
import { FakeModel } from './fakes/fake-model';
import type { Say } from './fakes/fake-model';
import { temporalFlags } from './temporal-server';

/** A namespace of a real Temporal server, stores in a directory of their own, and workers made for one test at a time. */
export interface TemporalEnv {
  temporal: TestWorkflowEnvironment;
  blobs: BlobStore;
  ledger: Ledger;
  /** Stores a task and makes the input of a rollout of it. */
  declare(spec?: RolloutSpec): Promise<RolloutInput>;
  /** Runs `work` beside a worker with these fakes. */
  withWorker<T>(fakes: Fakes, work: (fakes: Running) => Promise<T>): Promise<T>;
  /** Declares a rollout and runs it to its end. */
  run(
    spec?: RolloutSpec,
    fakes?: Fakes,
  ): Promise<{ result: RolloutResult; input: RolloutInput; fakes: Running }>;
  close(): Promise<void>;
}

export interface Fakes {
  denv?: FakeDenv;
  /** A denv server in the fake's place. */
  server?: DenvClient;
  model?: FakeModel | Say[];
  /** Of a worker before this one, whose rollouts it takes over. */
  taskQueue?: string;
}

export interface Running {
  denv: FakeDenv;
  model: FakeModel;
  /** Of this worker alone: a workflow that an earlier test left behind is nobody's. */
  taskQueue: string;
  start: (input: RolloutInput) => Promise<WorkflowHandleWithFirstExecutionRunId<typeof rollout>>;
}

export interface RolloutSpec extends Partial<Omit<RolloutInput, 'taskRef'>> {
  task?: Partial<Task>;
}

/** @param settings.continueAt  number of history events at which a run is told to continue as new */
export async function openTemporal(settings: { continueAt?: number } = {}): Promise<TemporalEnv> {
  quietRuntime();
  const dir = mkdtempSync(join(tmpdir(), 'rollouts-temporal-'));
  const temporal = await connectTemporal(settings);
  const blobs = createDirectoryBlobs(join(dir, 'blobs'));
  const ledger = await openLedger(join(dir, 'ledger.db'));
  const codePath = await workflowBundle();
  let declared = 0;

  const env: TemporalEnv = {
    temporal,
    blobs,
    ledger,
    async declare({ task, ...spec } = {}) {
      declared += 1;
      const packed = packedTask(task);
      const { ref } = await blobs.put(Buffer.from(JSON.stringify(packed)));
      const batchId = spec.batchId ?? `b${declared}`;
      const input: RolloutInput = {
        rolloutId: `rollout/${batchId}/${packed.id}/${spec.index ?? 0}`,
        batchId,
        taskId: packed.id,
        index: 0,
        identity: `identity-${declared}`,
        owner: 'test-owner',
        agent: 'model',
        model: { name: 'scripted', settings: {}, price: null },
        limits: {},
        checkpoints: 'step',
        onOutcomeUnknown: 'restore',
        ...spec,
        taskRef: ref,
      };
      return input;
    },
    async withWorker(fakes, work) {
      const denv = fakes.denv ?? new FakeDenv();
      const model =
        fakes.model instanceof FakeModel ? fakes.model : new FakeModel(fakes.model ?? []);
      const dependencies: Dependencies = {
        denv: fakes.server ?? denv.client,
        models: model,
        blobs,
        ledger,
        owner: 'test-owner',
      };
      const taskQueue = fakes.taskQueue ?? `rollouts-${randomUUID()}`;
      const start = (input: RolloutInput) =>
        temporal.client.workflow.start(rollout, {
          workflowId: input.rolloutId,
          taskQueue,
          args: [input],
        });
      const worker = await Worker.create({
        connection: temporal.nativeConnection,
        namespace: temporal.namespace ?? 'default',
        taskQueue,
        workflowBundle: { codePath },
        activities: createActivities(dependencies),
        maxHeartbeatThrottleInterval: '1 second',
        stickyQueueScheduleToStartTimeout: '2 seconds',
      });
      return worker.runUntil(() => work({ denv, model, taskQueue, start }));
    },
    async run(spec, fakes = {}) {
      const input = await env.declare(spec);
      return env.withWorker(fakes, async (running) => {
        const handle = await running.start(input);
        const result = await handle.result();
        return { result, input, fakes: running };
      });
    },
    async close() {
      await ledger.close();
      await temporal.teardown();
      await rm(dir, { recursive: true, force: true });
    },
  };
  return env;
}

/** A namespace of the server that all test files share, or a server of its own where a test needs other settings. */
async function connectTemporal(settings: {
  continueAt?: number;
}): Promise<TestWorkflowEnvironment> {
  const address = process.env['TEST_TEMPORAL_ADDRESS'];
  if (address !== undefined && settings.continueAt === undefined) {
    const namespace = `test-${randomUUID()}`;
    // It may still be starting.
    const connection = await Connection.connect({ address, connectTimeout: '60 seconds' });
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs('1 day'),
    });
    await connection.close();
    return TestWorkflowEnvironment.createFromExistingServer({ address, namespace });
  }
  const extraArgs = [...temporalFlags];
  if (settings.continueAt !== undefined) {
    const limit = `limit.historyCount.suggestContinueAsNew=${settings.continueAt}`;
    extraArgs.push('--dynamic-config-value', limit);
  }
  const path = findTemporalCli(settingsFrom(process.env));
  return TestWorkflowEnvironment.createLocal({
    server: { executable: { type: 'existing-path', path }, extraArgs },
  });
}

function packedTask(task: Partial<Task> = {}) {
  const id = task.id ?? 'mend';
  return {
    id,
    taskset: 'test',
    digest: 'sha256:test',
    task: {
      id,
      prompt: 'Mend it.',
      environment: { image: 'host' },
      verifier: { image: 'host', command: ['sh', '/verify.sh'] },
      ...task,
    },
    environmentFiles: [],
    verifierFiles: [],
  };
}

let quiet = false;
function quietRuntime(): void {
  if (quiet) return;
  quiet = true;
  const level = process.env.TEST_LOG_LEVEL === 'debug' ? 'DEBUG' : 'ERROR';
  Runtime.install({ logger: new DefaultLogger(level), shutdownSignals: [] });
}

/** The workflows' bundle, built once for these sources however many test files use it. */
export async function workflowBundle(): Promise<string> {
  const root = join(__dirname, '..');
  const hash = createHash('sha256');
  for (const file of globSync('{workflows,contracts,activities}/**/*.ts', { cwd: root }).sort()) {
    hash.update(file).update(readFileSync(join(root, file)));
  }
  const dir = join(root, 'dist', 'test');
  const path = join(dir, `workflow-bundle-${hash.digest('hex').slice(0, 16)}.js`);
  if (existsSync(path)) return path;
  mkdirSync(dir, { recursive: true });
  for (const old of globSync('workflow-bundle-*', { cwd: dir })) {
    // Another process may be writing the same one.
    if (!join(dir, old).startsWith(path)) rmSync(join(dir, old), { force: true });
  }
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(root, 'workflows/index.ts'),
    logger: new DefaultLogger('ERROR'),
  });
  const tmp = `${path}.${process.pid}`;
  writeFileSync(tmp, code);
  renameSync(tmp, path);
  return path;
}
