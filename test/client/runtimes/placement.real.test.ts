import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const rollouts = resolve(__dirname, '../../../bin/rollouts');

describe('a placement of one\u2019s own, by the compiled command', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'placement-'));
    const rows = ['a', 'b', 'c'].map((id) => ({ env: 'e', id }));
    await writeFile(join(dir, 'tasks.json'), JSON.stringify(rows));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  async function run(module: string, ...more: string[]) {
    await writeFile(join(dir, 'place.mjs'), module);
    const args = ['run', join(dir, 'tasks.json'), '--agent', 'nop'];
    const own = ['--placement', join(dir, 'place.mjs'), ...more];
    const env = { PATH: process.env['PATH'], ROLLOUTS_HOME: join(dir, 'home') };
    return promisify(execFile)(rollouts, [...args, ...own], { env }).then(
      () => ({ code: 0, told: '' }),
      (error: { code: number; stderr: string }) => ({ code: error.code, told: error.stderr }),
    );
  }

  it('says task by task where each runs, and leaves the rest to --runtime', async () => {
    const { told } = await run(
      `export async function placement({ task, env }) {
        if (task === 'a') return 'docker:' + env;
        return task === 'b' ? null : undefined;
      }`,
      '--runtime',
      'tcp://127.0.0.1:9',
    );

    expect(told.split('\n').slice(0, 2)).toEqual([
      '1 task on docker:e',
      '2 tasks on tcp://127.0.0.1:9',
    ]);
  });

  it.each([
    ['export const placement = 1', 'place.mjs: export a function of the name placement'],
    ['export const placement = () => 1', 'for task "a": it returned number; return a text'],
    ['export const placement = () => "vm"', 'for task "a": "vm" is no runtime'],
    ['throw new Error("broken")', 'place.mjs: broken'],
  ])('refuses %j', async (module, message) => {
    const { code, told } = await run(module);

    expect(code).toBe(2);
    expect(told).toContain(message);
  });
});
