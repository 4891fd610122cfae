import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createDenvClient, type DenvClient } from '../denv/client';
import { command } from './command';

export interface BenchServer {
  client: DenvClient;
  dataDir: string;
  /** Ends the server, its sandboxes, mounts and helpers. */
  close(): Promise<void>;
}

const serverMain = join(__dirname, '../denv/server/main.js');

/** A denv server of its own, as a process, on a free port. */
export async function startDenvServer(dataDir: string): Promise<BenchServer> {
  const child = spawn(process.execPath, [serverMain, '--data', dataDir, '--port', '0'], {
    env: { ...process.env, DENV_LOG_LEVEL: 'warn' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const lines = createInterface({ input: child.stdout });
  const address = await new Promise<string>((resolve, reject) => {
    lines.once('line', (line) => {
      const { address: at } = JSON.parse(line) as { address: string }; // the server's one ready line
      resolve(at);
    });
    child.once('exit', (code) => reject(new Error(`the denv server exited ${code}`)));
  });
  const apiKey = readFileSync(join(dataDir, 'key'), 'utf8').trim();
  return {
    client: createDenvClient({ server: address, apiKey }),
    dataDir,
    async close() {
      child.kill('SIGTERM');
      await ended;
      await command(process.execPath, serverMain, '--shutdown', '--data', dataDir);
    },
  };
}
