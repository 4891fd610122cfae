import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { whyNoMemoryFork } from '../../../../denv/drivers/linux/memory-fork';

let dir: string;
beforeEach(() => (dir = mkdtempSync(join(tmpdir(), 'criu-'))));
afterEach(() => rmSync(dir, { recursive: true }));

function criu(version: string, check: string): string {
  const at = join(dir, 'criu');
  const script = `#!/bin/sh\ncase $1 in --version) echo "Version: ${version}";; check) ${check};; esac\n`;
  writeFileSync(at, script, { mode: 0o755 });
  return at;
}

describe('why there is no memory fork', () => {
  it('is that there is no CRIU', async () => {
    expect(await whyNoMemoryFork(null)).toBe(
      'memory fork: not claimed, there is no CRIU on PATH (4 or newer is needed)',
    );
  });

  it.each([
    ['3.17.1', 'exit 0', 'CRIU 3.17.1 is too old (4 or newer is needed)'],
    [
      '4.2',
      'exit 0',
      'CRIU 4.2 says that it works here, but no sandbox is dumped and restored by it',
    ],
    ['4.2', 'echo "no CAP_X" >&2; exit 1', 'exited with 1: no CAP_X'],
  ])('says of CRIU %s with a check that does `%s` what it found', async (version, check, why) => {
    const said = await whyNoMemoryFork(criu(version, check));

    expect(said).toContain('memory fork: not claimed, ');
    expect(said).toContain(why);
  });
});
