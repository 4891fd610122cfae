import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { createActivities } from '../activities';
import { createDenvClient } from '../denv/client';
import { createModels } from '../models/router';
import { createDirectoryBlobs } from '../stores/directory-blobs';
import { openLedger } from '../stores/sqlite/ledger';
import type { WorkerSettings } from './config';
import { workerIdentity } from './identity';
import { ownerLabel } from '../rollouts/owner';
import { readNamespaceId } from '../temporal/states';
import { startCollector } from './collector';
import { createKeepPolicies } from '../retention/keep-policies';
import { openWork } from '../retention/open-work';
import { startReaper } from './reaper';
import { measureInTurn, unmeasured } from '../retention/sizes';
import { registerSearchAttributes } from './search-attributes';

const reapEveryMs = 60_000;
const collectEveryMs = 60_000;
/** Versions measured in one round. */
const measuredAtOnce = 20;
/** It stands in every second event of a history, where the SDK's own one, a digest, would be a sixth of all bytes. */
const buildId = 'denv-rollouts';

/**
 * Runs a worker until it is told to shut down by SIGTERM or SIGINT. It lets go of what it waits for; another worker, or the next
 * one, takes it over.
 * @param ready  called once it polls
 */
export async function runWorker(settings: WorkerSettings, ready: () => void): Promise<void> {
  const runtime = Runtime.install({
    logger: new DefaultLogger('INFO'),
    shutdownSignals: ['SIGTERM', 'SIGINT'],
  });
  const { connectionOptions, namespace = 'default' } = loadClientConnectConfig();
  const connection = await NativeConnection.connect(connectionOptions);
  const ledger = await openLedger(settings.ledger);
  try {
    const denv = createDenvClient(settings.denv);
    const namespaceId = await readNamespaceId(connection.workflowService, namespace);
    const owner = ownerLabel(settings.ownerFile, namespaceId);
    const say = (message: string, fields: Record<string, unknown>) =>
      runtime.logger.info(message, fields);
    const registered = await registerSearchAttributes(connection, namespace);
    if (!registered) {
      runtime.logger.warn('Temporal refuses the search attributes; rollouts run without them');
    }
    const blobs = createDirectoryBlobs(settings.blobs);
    const worker = await Worker.create({
      connection,
      namespace,
      taskQueue: settings.taskQueue,
      identity: workerIdentity(process.pid, hostname()),
      ...workflowCode(),
      activities: createActivities({
        denv,
        models: createModels(settings.models),
        blobs,
        ledger,
        owner,
      }),
      // Activities wait for others most of their time; a parked workflow is cheap.
      maxConcurrentActivityTaskExecutions: 1000,
      maxCachedWorkflows: 1500,
      // One thread replays them: more at once only use up each other's time.
      maxConcurrentWorkflowTaskExecutions: 8,
      // So that what a killed worker held is noticed and handed on within seconds.
      maxHeartbeatThrottleInterval: '1 second',
      stickyQueueScheduleToStartTimeout: '2 seconds',
      shutdownGraceTime: '10 seconds',
      buildId,
    });
    const work = openWork(new Client({ connection, namespace }));
    const reaper = startReaper({ denv, rollouts: work, owner, say }, reapEveryMs);
    const { retention: rules } = settings;
    const measure = rules.budgetBytes === null ? unmeasured : measureInTurn(denv, measuredAtOnce);
    const keeps = createKeepPolicies({ blobs, ledger });
    const collector = startCollector(
      { denv, ledger, work, keeps, owner, rules, measure, say },
      collectEveryMs,
    );
    try {
      const running = worker.run();
      ready();
      await running;
    } finally {
      await Promise.all([reaper.stop(), collector.stop()]);
    }
  } finally {
    await ledger.close();
    await connection.close();
  }
}

/** The bundle that the build made; from sources, as in tests, the workflows themselves. */
function workflowCode() {
  const codePath = join(__dirname, '..', 'workflow-bundle.js');
  return existsSync(codePath)
    ? { workflowBundle: { codePath } }
    : { workflowsPath: require.resolve('../workflows') };
}
