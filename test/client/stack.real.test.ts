import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BatchReport } from '../../contracts/batch';
import { processIdOf } from '../../client/stack/processes';
import { readStackState } from '../../client/stack/state';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';

const root = resolve(__dirname, '../..');
const tiny = join(root, 'test/fixtures/tiny');

/** One stack of its own for the whole file, up by the command itself: the tests go on from one another's batches. */
describe('the command line on a real stack', () => {
  let home: string;
  let model: ScriptedEndpoint;
  const free = ['--temporal-port', '0', '--ui-port', '0', '--denv-port', '0'];

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'stack-'));
    model = await startScripted({ file: join(tiny, 'script.yaml') });
    const up = await rollouts('up', '--detach', ...free);
    expect(up).toMatchObject({ code: 0, err: '' });
    expect(up.out).toContain('Ready, in the background.');
  }, 120_000);

  afterAll(async () => {
    await rollouts('down');
    await model.close();
    await rm(home, { recursive: true, force: true });
  }, 120_000);

  const env = (): NodeJS.ProcessEnv => ({
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    XDG_CACHE_HOME: process.env['XDG_CACHE_HOME'],
    ROLLOUTS_HOME: home,
  });

  async function rollouts(...args: string[]) {
    return new Promise<{ code: number; out: string; err: string }>((done) => {
      execFile(join(root, 'bin/rollouts'), args, { env: env() }, (error, out, err) =>
        done({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
      );
    });
  }

  const model1 = () => ['--model', 'scripted', '--base-url', `${model.address}/v1`];
  const runArgs = (batch: string) => ['run', join(tiny, 'taskset.yaml'), '--batch', batch];
  const stack = () => readStackState(join(home, 'run'));

  it('runs a taskset to its rewards and prints one object', async () => {
    const { code, out, err } = await rollouts(...runArgs('oracle'), '--agent', 'oracle', '--json');

    expect(code).toBe(0);
    expect(out.trim().split('\n')).toHaveLength(1);
    const report = BatchReport.parse(JSON.parse(out));
    expect(report).toMatchObject({ batchId: 'oracle', declared: 2, scored: 2, meanReward: 0.5 });
    expect(report.rollouts.map((r) => [r.task, r.reward, r.rewards])).toEqual([
      ['answer', 1, { tried: 1 }],
      ['no-answer', 0, { tried: 1 }],
    ]);
    expect(err).toContain('batch oracle started, with 2 rollouts');
  }, 120_000);

  it('attaches to a batch that was run before and starts nothing twice', async () => {
    const before = JSON.parse((await rollouts('list', '--json')).out);

    const again = await rollouts(...runArgs('oracle'), '--agent', 'oracle', '--json');

    expect(again.code).toBe(0);
    expect(again.err).toContain('batch oracle was started before; attached to it');
    expect(JSON.parse((await rollouts('list', '--json')).out)).toEqual(before);
  }, 60_000);

  it('refuses the same batch with other contents', async () => {
    const { code, err } = await rollouts(...runArgs('oracle'), '--agent', 'nop');

    expect(code).toBe(2);
    expect(err).toContain('batch oracle was declared before with other contents');
  }, 60_000);

  it('pauses, is spoken to, resumes, and shows all of it', async () => {
    const rolloutId = 'rollout/steered/answer/0';
    await rollouts(...runArgs('steered'), ...model1(), '--task', 'answer', '--detach');
    await until(async () => /stage +loop/.test((await rollouts('show', rolloutId)).out));

    expect((await rollouts('pause', rolloutId)).out).toContain(`${rolloutId} paused: stage loop`);
    expect((await rollouts('message', rolloutId, 'Mind the units.')).out).toBe(
      'sent; messages that wait for the agent: 1\n',
    );
    expect((await rollouts('resume', rolloutId)).out).toContain(`${rolloutId} resumed`);
    const watched = await rollouts('watch', 'steered');
    expect(watched.out).toContain('batch steered: mean reward 1 over 1/1 scored');

    const shown = (await rollouts('show', rolloutId)).out;
    expect(shown).toContain('a person says: Mind the units.');
    expect(shown).toContain('calls bash {"command":"echo 42 > /workspace/answer.txt"}');
    expect(shown).toMatch(/Temporal +http:\/\/127\.0\.0\.1:\d+\/namespaces\/default\/workflows\//);
    expect(shown).toMatch(/sandbox +sb_[0-9a-f]+ \(deleted\)/);
    const late = await rollouts('pause', rolloutId);
    expect(late).toMatchObject({ code: 1, out: '' });
    expect(late.err).toContain(`${rolloutId} has ended (scored)`);
  }, 120_000);

  it('explores continuations of a step, and more of them when asked again', async () => {
    const at = ['explore', 'rollout/steered/answer/0', '--at', '2', '--json'];

    const first = JSON.parse((await rollouts(...at, '--count', '2')).out);
    const second = JSON.parse((await rollouts(...at, '--count', '1')).out);

    expect(first).toMatchObject({
      rootRolloutId: 'rollout/steered/answer/0',
      ended: 'done',
      scored: 2,
      value: 1,
      values: [{ step: 2, value: 1, visits: 2 }],
    });
    expect(first.rollouts.map((r: { rolloutId: string }) => r.rolloutId)).toEqual([
      'rollout/steered/answer/0/x1.1',
      'rollout/steered/answer/0/x1.2',
    ]);
    expect(second.rollouts[0].rolloutId).toBe('rollout/steered/answer/0/x2.1');
    const refused = await rollouts('explore', 'rollout/steered/answer/0', '--at', '9');
    expect(refused.code).toBe(2);
    expect(refused.err).toContain('has no checkpoint before that step; it has them before 1, 2');
  }, 120_000);

  it('cancels at the first Ctrl-C, waits for the clean-up, and tells what was not scored', async () => {
    const args = [...runArgs('stopped'), ...model1(), '--task', 'answer', '--group', '2', '--json'];
    const child = spawn(join(root, 'bin/rollouts'), args, { env: env() });
    let out = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    await until(async () =>
      /stage +loop/.test((await rollouts('show', 'rollout/stopped/answer/1')).out),
    );

    child.kill('SIGINT');
    const [code] = (await once(child, 'exit')) as [number];

    expect(code).toBe(3);
    expect(BatchReport.parse(JSON.parse(out))).toMatchObject({
      scored: 0,
      unscored: 2,
      meanReward: null,
      rollouts: [
        { reward: null, failure: { class: 'cancelled' } },
        { reward: null, failure: { class: 'cancelled' } },
      ],
    });
    expect((await rollouts('doctor')).out).toContain('0 sandboxes, 0 running');
  }, 120_000);

  it('goes on when its terminal is closed', async () => {
    const args = [...runArgs('left'), ...model1(), '--task', 'answer'];
    const child = spawn(join(root, 'bin/rollouts'), args, { env: env() });
    await once(child.stderr, 'data');

    child.kill('SIGHUP');
    await once(child, 'exit');

    const { out } = await rollouts('watch', 'left');
    expect(out).toContain('batch left: mean reward 1 over 1/1 scored');
  }, 120_000);

  it('rebuilds a lost ledger from workflow results', async () => {
    const worker = () => stack()?.services.find(({ name }) => name === 'worker');
    const before = JSON.parse((await rollouts('list', '--json')).out) as ListedRow[];
    for (const name of await readdir(home)) {
      if (name.startsWith('ledger.db')) await rename(join(home, name), join(home, `old-${name}`));
    }
    process.kill(worker()?.pid ?? 0, 'SIGKILL'); // It has the old file open.
    await until(async () => worker()?.state === 'ready' && worker()?.restarts === 1);
    expect((await rollouts('list')).out).toBe('no rollouts\n');

    const repaired = await rollouts('doctor', '--repair');

    expect(repaired.out).toContain(
      'batch oracle its 2 rollouts are not in the ledger; declared again',
    );
    const after = JSON.parse((await rollouts('list', '--json')).out) as ListedRow[];
    // A cancelled workflow has no result to tell: that it was cancelled is what can be known.
    const kept = (rows: ListedRow[]) =>
      rows
        .map(({ endedAt, failure, ...row }) =>
          failure?.class === 'cancelled'
            ? { ...row, failure: 'cancelled' }
            : { ...row, endedAt, failure },
        )
        .sort((a, b) => a.rolloutId.localeCompare(b.rolloutId));
    expect(kept(after)).toEqual(kept(before));
    expect(await rollouts('doctor')).toMatchObject({ code: 0 });
  }, 120_000);

  it('starts one stack a home', async () => {
    expect((await rollouts('up', '--detach')).out).toContain('The stack is running already.');
    expect(await rollouts('up', ...free)).toMatchObject({
      code: 1,
      err: `the stack of ${home} is running already; see it with: rollouts status\n`,
    });
  }, 60_000);

  it('starts nothing on a port that is taken', async () => {
    const other = await mkdtemp(join(tmpdir(), 'stack-'));
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    try {
      const taken = new Promise<{ code: unknown; err: string }>((done) => {
        execFile(
          join(root, 'bin/rollouts'),
          ['up', '--detach', '--temporal-port', '0', '--ui-port', '0', '--denv-port', String(port)],
          { env: { ...env(), ROLLOUTS_HOME: other } },
          (error, _out, err) => done({ code: error?.code, err }),
        );
      });

      expect((await taken).code).toBe(1);
      expect((await taken).err).toContain(`port ${port} for the denv server is taken`);
      expect(await readdir(join(other, 'run'))).toEqual(['lock.db']);
    } finally {
      server.close();
      await rm(other, { recursive: true, force: true });
    }
  }, 60_000);

  it('leaves nothing behind when it goes down, also after its supervisor was killed', async () => {
    const state = stack();
    const pids = (state?.services ?? []).map(({ pid }) => pid ?? 0);
    process.kill(state?.supervisor.pid ?? 0, 'SIGKILL');
    await until(async () => stack() === null);

    const down = await rollouts('down');

    expect(down).toMatchObject({ code: 0, err: '' });
    expect(down.out).toContain('ending worker, left by an earlier stack');
    // A process that has ended may still await its parent, which is not ours then.
    for (const pid of pids) expect(processIdOf(pid).startTime).toBeNull();
    expect(readFileSync('/proc/mounts', 'utf8')).not.toContain(home);
    expect(await rollouts('status')).toMatchObject({ code: 1 });
  }, 120_000);
});

interface ListedRow {
  rolloutId: string;
  endedAt: string;
  failure: { class: string } | null;
}

async function until(what: () => Promise<boolean>): Promise<void> {
  while (!(await what())) await sleep(100);
}
