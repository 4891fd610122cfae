import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { SandboxDriver } from '../../../denv/drivers/driver';
import { createFakeDriver } from '../../fakes/fake-driver';
import { actionsOn, describeDriver, describeShutdown, followUntil } from '../driver-suite';
import type { DriverUnderTest } from '../driver-suite';

const image = { kind: 'host' } as const;
const claims = { execsOutliveTheirStarter: false, runContainer: false, publish: false };
let dir: string;
let driver: SandboxDriver;

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'denv-fake-'));
  driver = createFakeDriver(dir);
  await driver.open();
});

afterAll(async () => {
  await driver.shutdown();
  rmSync(dir, { recursive: true });
});

describe('the fake driver', () => {
  const under = (): DriverUnderTest => ({ connect: () => driver, image, claims });
  describeDriver(under, claims);

  test('connects to a port on loopback, and says what it cannot do', async () => {
    const { newSandbox, start } = actionsOn(driver, image);
    const id = await newSandbox();
    const listen =
      'require("net").createServer((s)=>s.end("hi")).listen(0,function(){console.log("up",this.address().port,"!")})';
    const { handle } = await start(id, [process.execPath, '-e', listen]);
    const { text } = await followUntil(handle, 0, '!');

    const socket = await driver.connect(id, Number(text.split(' ')[1]));
    const said = await new Promise((resolve) => socket.once('data', (data) => resolve(`${data}`)));

    expect(said).toBe('hi');
    const container = driver.runContainer({
      containerId: 'v',
      base: 'b',
      image,
      argv: ['true'],
      uid: 2000,
      env: {},
      timeoutS: 1,
      caps: { cpus: 1, memoryMb: 64, pids: 8 },
      readAll: true,
      mounts: [],
    });
    await expect(container).rejects.toMatchObject({ code: 'capability_missing' });
    await driver.remove(id);
  });

  describeShutdown(under);
});
