import { createLinuxDriver } from '../../../denv/drivers/linux/driver';

/** Program of the crash test: starts execs in a sandbox, says so, and waits to be killed. Arguments: data directory, sandbox. */
async function main(dataDir: string, sandboxId: string): Promise<void> {
  const driver = createLinuxDriver({ dataDir });
  await driver.open();
  const image = { kind: 'host' } as const;
  const { base } = await driver.prepareBase(image, []);
  const caps = { cpus: 1, memoryMb: 256, pids: 64 };
  await driver.create({ sandboxId, from: { kind: 'base', base }, image, caps });
  const common = { uid: 1000, cwd: '/workspace', env: {} };
  const lines = 'for i in $(seq 2000); do echo out $i; echo err $i >&2; done; ';
  const talk = 'read -r a; echo "got $a"; read -r b; echo "got $b"; exit 6';
  const input = Buffer.from('finite\n');
  await driver.startExec(sandboxId, 'held', {
    ...common,
    argv: ['sh', '-c', `read -r go; ${lines} exit 42`],
    stdin: 'pipe',
  });
  await driver.startExec(sandboxId, 'plain', {
    ...common,
    argv: ['sh', '-c', `until [ -e go ]; do sleep 0.02; done; ${lines} cat; exit 43`],
    stdin: input,
  });
  await driver.startExec(sandboxId, 'talk', {
    ...common,
    argv: ['sh', '-c', talk],
    stdin: 'pipe',
  });
  const handle = await driver.openExec(sandboxId, 'talk');
  await handle?.write(Buffer.from('one\n'));
  handle?.follow(0, (stdout, nextOffset) => {
    process.stdout.write(`${JSON.stringify({ said: stdout.toString(), nextOffset })}\n`);
  });
}

void main(process.argv[2] ?? '', process.argv[3] ?? '');
