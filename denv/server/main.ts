import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { parseArgs } from 'node:util';
import { serve } from '@hono/node-server';
import pino from 'pino';
import { createDockerDriver } from '../drivers/docker/driver';
import { socketPathOf } from '../drivers/docker/engine';
import { createLinuxDriver } from '../drivers/linux/driver';
import { createTcpDriver } from '../drivers/tcp';
import { toDenvError } from '../errors';
import { shutdownDenvServer, startDenvServer } from './server';
import { createTargets } from './targets';

const HELP = `denv server: forkable sandboxes on this host, over HTTP.

  node dist/denv/server/main.js --data DIR [--port 7300] [--host 127.0.0.1]
  node dist/denv/server/main.js --data DIR --shutdown     end every sandbox process, mount and helper; data stays

The API key is DENV_API_KEY, else DIR/key, which is made at the first start (0600).
DENV_IMAGE_DIRS: folders, separated by ":", under which dir: and tar: images may lie. DENV_DISK_GB: size of the loop file.
DOCKER_HOST: unix socket of the engine of target docker, where it is not /var/run/docker.sock.`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      data: { type: 'string' },
      port: { type: 'string', default: '7300' },
      host: { type: 'string', default: '127.0.0.1' },
      shutdown: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return console.log(HELP);
  const dataDir = values.data ?? process.env['DENV_DATA_DIR'];
  if (!dataDir) throw new Error('--data DIR is needed (see --help)');
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  chmodSync(dataDir, 0o700);
  const log = pino({ level: process.env['DENV_LOG_LEVEL'] ?? 'info' }, pino.destination(2));
  const driver = createLinuxDriver({
    dataDir,
    loopSizeGb: Number(process.env['DENV_DISK_GB'] ?? 40),
    imageRoots: (process.env['DENV_IMAGE_DIRS'] ?? '').split(':').filter((dir) => dir !== ''),
  });
  const socketPath = socketPathOf(process.env['DOCKER_HOST']);
  const others = [createDockerDriver({ dataDir, socketPath }), createTcpDriver(dataDir)];
  if (values.shutdown) return shutdownDenvServer(dataDir, createTargets(driver, others));
  const server = await startDenvServer({
    driver,
    others,
    log,
    settings: { dataDir, apiKey: process.env['DENV_API_KEY'] ?? keyIn(dataDir) },
  });
  const listener = serve(
    { fetch: (request) => server.fetch(request), port: Number(values.port), hostname: values.host },
    (info) =>
      console.log(JSON.stringify({ ready: true, address: `http://${values.host}:${info.port}` })),
  );
  listener.on('error', (error: NodeJS.ErrnoException) => {
    const taken = error.code === 'EADDRINUSE';
    fail(taken ? new Error(`port ${values.port} is taken: choose another with --port`) : error);
  });
  listener.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
    server.upgrade(request, socket, head),
  );
  if ('headersTimeout' in listener) {
    // A long-poll and a large upload set their own pace.
    listener.requestTimeout = 0;
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      listener.close();
      server.stop().then(
        () => process.exit(0),
        (error: unknown) => fail(error),
      );
    });
  }
}

function keyIn(dataDir: string): string {
  const path = join(dataDir, 'key');
  if (!existsSync(path)) {
    writeFileSync(path, `dak_${randomBytes(24).toString('hex')}\n`, { mode: 0o600, flag: 'wx' });
  }
  return readFileSync(path, 'utf8').trim();
}

function fail(error: unknown): never {
  const known = toDenvError(error);
  console.error(`denv server: ${known.message}`);
  process.exit(1);
}

main().catch(fail);
