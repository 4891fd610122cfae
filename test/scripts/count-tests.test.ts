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

  type File = [name: string, passed: number, failed: number, unread?: 'unread'];

  const count = (status: string, reports: File[][]) => {
    const files = reports.map((report, i) => {
      const file = join(dir, `${i}.json`);
      writeFileSync(file, JSON.stringify({ testResults: report.map(resultOf) }));
      return file;
    });
    const args = [script, status, ...files, join(dir, 'not-there.json')];
    return execFileSync(process.execPath, args, { encoding: 'utf8' });
  };

  const resultOf = ([name, passed, failed, unread]: File) => ({
    name,
    status: failed > 0 || unread ? 'failed' : 'passed',
    assertionResults: [
      ...Array.from({ length: passed }, () => ({ status: 'passed' })),
      ...Array.from({ length: failed }, () => ({ status: 'failed' })),
    ],
  });

  it.each<[string, File[][], string]>([
    ['0', [[['a', 3, 0]], [['b', 4, 0]]], '7 passed, 0 failed\n'],
    [
      '1',
      [
        [['a', 3, 1]],
        [
          ['b', 4, 0],
          ['c', 0, 0, 'unread'],
        ],
      ],
      '7 passed, 2 failed\n',
    ],
    ['1', [[['a', 3, 0]]], '3 passed, 1 failed\n'],
    ['1', [], '0 passed, 1 failed\n'],
  ])('of status %s and reports %j', (status, reports, line) => {
    expect(count(status, reports)).toBe(line);
  });
});
