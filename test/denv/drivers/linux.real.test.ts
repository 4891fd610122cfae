import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { SandboxDriver } from '../../../denv/drivers/driver';
import { createLinuxDriver } from '../../../denv/drivers/linux/driver';
import { describeDriver, describeShutdown } from '../driver-suite';
import type { DriverUnderTest } from '../driver-suite';

jest.setTimeout(60_000);

const claims = { execsOutliveTheirStarter: true, runContainer: true, publish: true };
let dataDir: string;
let driver: SandboxDriver;

beforeAll(async () => {
  dataDir = mkdtempSync(path.join(tmpdir(), 'denv-linux-'));
  driver = createLinuxDriver({ dataDir, loopSizeGb: 4 });
  await driver.open();
});

afterAll(async () => {
  await driver.open();
  await driver.shutdown();
  rmSync(dataDir, { recursive: true });
});

describe('the linux driver', () => {
  const under = (): DriverUnderTest => ({
    connect: () => createLinuxDriver({ dataDir }),
    image: { kind: 'host' },
    claims,
  });
  describeDriver(under, claims);
  describeShutdown(under);
});
