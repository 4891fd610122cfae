import { mkdir } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { SandboxDriver } from '../drivers/driver';
import { versionIdOf } from '../ids';
import { createApp } from './app';
import { Attachments } from './attach';
import { Archives } from './archives';
import { registerCalls } from './calls';
import { defaultSettings, type ServerContext, type ServerSettings } from './context';
import { Controllers } from './controllers';
import { Files } from './files';
import { Journal } from './journal';
import { guardCommand } from './launch';
import { Lifecycle } from './lifecycle';
import { Operations } from './operations';
import { OutputGuard } from './output-guard';
import { Preparation } from './preparation';
import { Sandboxes, type SnapshotWork } from './sandboxes';
import { startSweeps } from './sweeps';
import { createTargets } from './targets';
import { Verify } from './verify';
import { Versions } from './versions';

export interface DenvServer {
  fetch(request: Request): Promise<Response>;
  /** Takes a request for a WebSocket: the attach stream. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Lets go of everything; sandboxes and what runs in them live on, for the next process. */
  stop(): Promise<void>;
}

/**
 * The denv server over a driver and a data directory. Starting it adopts what an earlier process left: sandboxes that still
 * run go on, operations are redone, finished or reported unknown by their kind, and what has no record is removed.
 * @throws DenvError unavailable when another server holds the data directory
 */
export async function startDenvServer(options: {
  driver: SandboxDriver;
  /** Of other targets. */
  others?: SandboxDriver[];
  log: Logger;
  settings: Pick<ServerSettings, 'dataDir' | 'apiKey'> & Partial<ServerSettings>;
}): Promise<DenvServer> {
  const settings = { ...defaultSettings, ...options.settings };
  await mkdir(settings.dataDir, { recursive: true, mode: 0o700 });
  const journal = new Journal(join(settings.dataDir, 'journal.db'));
  const { log } = options;
  const driver = createTargets(options.driver, options.others ?? []);
  await driver.open();
  const operations = new Operations(journal, log);
  const archives = new Archives(settings.dataDir);
  const outputGuard = new OutputGuard(settings.maxOutputBytes, log);
  const context: ServerContext = {
    settings,
    journal,
    archives,
    operations,
    outputGuard,
    driver,
    log,
  };
  const sandboxes = new Sandboxes(context);
  const controllers = new Controllers(context, sandboxes);
  const preparation = new Preparation(context, sandboxes);
  const lifecycle = new Lifecycle(context, sandboxes, controllers, preparation);
  registerCalls(context, sandboxes, controllers);
  const verify = new Verify(context, sandboxes);
  const files = new Files(context, sandboxes);
  const versions = new Versions(context, sandboxes);
  const attachments = new Attachments(context, sandboxes);
  registerSnapshot(context, sandboxes);

  sandboxes.load();
  await adopt(context, sandboxes, controllers);
  operations.resume();
  await finishDeletes(sandboxes, lifecycle);
  const stopSweeps = startSweeps(context, sandboxes, lifecycle, versions);
  log.info(
    { sandboxes: sandboxes.all().length, resumed: operations.running },
    'denv server started',
  );

  const app = createApp({ context, sandboxes, lifecycle, preparation, verify, files, versions });
  return {
    fetch: (request) => app.fetch(request),
    upgrade: (request, socket, head) => attachments.upgrade(request, socket, head),
    async stop() {
      stopSweeps();
      await attachments.close();
      outputGuard.close();
      controllers.releaseAll();
      await driver.close();
      journal.close();
    },
  };
}

/**
 * Ends every sandbox process, helper, mount and loop device of a data directory, and notes its sandboxes as stopped: they can
 * be snapshotted, verified and forked by a later server.
 * @throws DenvError unavailable when a server holds the data directory
 */
export async function shutdownDenvServer(dataDir: string, driver: SandboxDriver): Promise<void> {
  const journal = new Journal(join(dataDir, 'journal.db'));
  try {
    for (const row of journal.sandboxes()) {
      if (row.state !== 'running') continue;
      const stopped = {
        by: 'outside',
        what: 'stop_request',
        at: new Date().toISOString(),
      } as const;
      journal.putSandbox({ ...row, state: 'stopped', stopped });
      journal.record(row.id, 'stopped', stopped);
    }
    await driver.open();
    await driver.shutdown();
  } finally {
    journal.close();
  }
}

function registerSnapshot(context: ServerContext, sandboxes: Sandboxes): void {
  context.operations.register('snapshot', async (operation) => {
    const work = operation.request as SnapshotWork; // journalled by routes/forks.ts
    return sandboxes.snapshotNow(operation.key, work);
  });
}

async function adopt(
  context: ServerContext,
  sandboxes: Sandboxes,
  controllers: Controllers,
): Promise<void> {
  const { driver, journal, log } = context;
  for (const row of sandboxes.all()) {
    if (row.state !== 'running') continue;
    try {
      await sandboxes.checkAlive(row);
    } catch (error) {
      // Its target cannot say, as an engine that is down: the sweep asks again.
      log.warn({ err: error, sandbox: row.id }, 'a sandbox could not be looked after');
      continue;
    }
    if (row.state !== 'running') continue;
    await controllers.adopt(row);
    await guardCommand(context, row);
    for (const [port, host] of Object.entries(row.ports)) {
      await driver.publish(row.id, Number(port), host);
    }
  }
  const known = new Set(sandboxes.all().map((row) => row.id));
  for (const id of await driver.list()) {
    if (known.has(id)) continue;
    log.warn({ sandbox: id }, 'removing a sandbox without a record');
    await driver.remove(id);
  }
  const versions = new Set(journal.versions().map((row) => row.id));
  const underWay = new Set(journal.runningOperations().map((row) => versionIdOf(row.key)));
  for (const id of await driver.listVersions()) {
    if (!versions.has(id) && !underWay.has(id)) await driver.removeVersion(id);
  }
}

async function finishDeletes(sandboxes: Sandboxes, lifecycle: Lifecycle): Promise<void> {
  for (const row of sandboxes.all()) {
    if (row.state === 'deleting') await lifecycle.remove(row.id);
  }
}
