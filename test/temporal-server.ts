import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';

/** Flags of every Temporal server that tests start: those of the product's own. */
export const temporalFlags = [
  'system.enableActivityEagerExecution=true',
  'matching.useNewMatcher=true',
].flatMap((value) => ['--dynamic-config-value', value]);

/** The one Temporal server that the test files of a run share, each in a namespace of its own. */
export interface SharedTemporal {
  address: string;
  end(): Promise<void>;
}

/** Starts it and does not wait until it answers: whoever connects does. */
export async function startSharedTemporal(cli: string): Promise<SharedTemporal> {
  const port = await freePort();
  const server = ['server', 'start-dev', '--headless', '--ip', '127.0.0.1', '--port', `${port}`];
  const keeper = startKept(cli, [...server, '--log-level', 'error', ...temporalFlags]);
  return {
    address: `127.0.0.1:${port}`,
    async end() {
      if (keeper.exitCode !== null || keeper.signalCode !== null) return;
      const ended = once(keeper, 'exit');
      keeper.stdin?.end();
      await ended;
    },
  };
}

/** Starts a program that is killed once our end of a pipe is closed, which the kernel does when this process dies. */
function startKept(program: string, args: string[]): ChildProcess {
  const script = '"$@" <&- & read -r _; kill -KILL $!; wait';
  return spawn('sh', ['-c', script, 'sh', program, ...args], {
    stdio: ['pipe', 'ignore', 'inherit'],
    detached: true, // Ctrl-C ends the tests first.
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  server.close();
  await once(server, 'close');
  return port;
}
