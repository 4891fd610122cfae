import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const script = resolve(__dirname, '../../scripts/lib/count-tests.js');

describe('the closing line of a test run', () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'counts-'));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  const count = (status: string, reports: [passed: number, failed: number, unread: number][]) => {
    const files = reports.map(([numPassedTests, numFailedTests, numRuntimeErrorTestSuites], i) => {
      const file = join(dir, `${i}.json`);
      const rest = { numPendingTests: 0, numTodoTests: 0 };
      const report = { numPassedTests, numFailedTests, numRuntimeErrorTestSuites, ...rest };
      writeFileSync(file, JSON.stringify(report));
      return file;
    });
    return execFileSync(process.execPath, [script, status, ...files], { encoding: 'utf8' });
  };

  it.each<[string, [number, number, number][], string]>([
    [
      '0',
      [
        [3, 0, 0],
        [4, 0, 0],
      ],
      '7 passed, 0 failed\n',
    ],
    [
      '1',
      [
        [3, 1, 0],
        [4, 0, 2],
      ],
      '7 passed, 3 failed\n',
    ],
    ['1', [[3, 0, 0]], '3 passed, 1 failed\n'],
    ['1', [], '0 passed, 1 failed\n'],
  ])('of status %s and reports %j', (status, reports, line) => {
    expect(count(status, reports)).toBe(line);
  });
});
