import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readInput } from '../../rollouts/inputs';
import type { RolloutInput } from '../../contracts/rollout';
import { collectOnce } from '../../worker/collector';
import type { CollectorParts } from '../../worker/collector';
import { createKeepPolicies } from '../../retention/keep-policies';
import { openWork } from '../../retention/open-work';
import { measureInTurn } from '../../retention/sizes';
import { rolloutIdOf } from '../e2e/crash-stack';
import { call, done, exec, gatedExec } from '../e2e/crash-tasks';
import { until } from '../e2e/until';
import { useCrashStack } from '../e2e/use-crash-stack';

const stack = useCrashStack();
const replies = [exec, exec, done];

/** As the stack's own worker collects, but with these rules and at this moment. */
async function collect(over: Partial<CollectorParts> = {}, now = new Date()): Promise<string[]> {
  const { denv, temporal, ledger, blobs, owner } = stack.rollouts;
  return collectOnce(
    {
      denv,
      ledger,
      work: openWork(temporal),
      keeps: createKeepPolicies({ blobs, ledger }),
      owner,
      rules: { days: 7, budgetBytes: null },
      measure: measureInTurn(denv),
      say: () => undefined,
      ...over,
    },
    now,
  );
}

/** Those of a rollout that are there, by the step they are a checkpoint of. */
async function there(rolloutId: string): Promise<(number | 'final')[]> {
  const { denv, ledger } = stack.rollouts;
  const { versions } = await denv.listVersions({ rolloutId });
  const result = (await ledger.rollout(rolloutId))?.result;
  const steps = new Map<string, number | 'final'>();
  for (const { step, version } of result?.checkpoints ?? []) steps.set(version, step);
  for (const { version } of result?.verdicts ?? []) steps.set(version, 'final');
  return versions.map(({ id }) => steps.get(id) ?? 'final');
}

describe('the collector on a real stack', () => {
  it('keeps what each policy says, and whatever something at work refers to', async () => {
    const batch = await stack.start('policies', [
      { id: 'final', keep: 'final', effects: 2, replies },
      { id: 'all', keep: 'all', effects: 2, replies },
      { id: 'none', keep: 'none', effects: 2, replies },
      { id: 'nobody', effects: 2, replies },
    ]);
    const results = await stack.finish(batch);
    const id = (task: string) => rolloutIdOf('policies', task);
    const open = await stack.start('open', [
      { id: 'runs', keep: 'none', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    const runs = rolloutIdOf('open', 'runs');
    await stack.effects(runs, 2);
    expect(Object.values(results).map(({ reward }) => reward)).toEqual([1, 1, 1, 1]);

    await collect();

    expect(await there(id('final'))).toEqual(['final']);
    expect(await there(id('all'))).toEqual([1, 2, 'final']);
    expect(await there(id('none'))).toEqual([]);
    expect(await there(id('nobody'))).toEqual([1, 2, 'final']);
    expect((await stack.rollouts.denv.listVersions({ rolloutId: runs })).versions).toHaveLength(2);
    await stack.finish(open);
    await collect();
    expect(await there(runs)).toEqual([]);

    const tomorrow = new Date(Date.now() + 25 * 3_600_000);
    await collect({}, tomorrow);
    expect(await there(id('nobody'))).toEqual(['final']);
    expect(await there(id('all'))).toEqual([1, 2, 'final']);
  });

  it('lists checkpoints with size, age, expiry and what keeps them; doctor says what would go', async () => {
    const listed = await stack.command('checkpoints', rolloutIdOf('policies', 'all'), '--json');
    const gone = await stack.command('checkpoints', rolloutIdOf('policies', 'nobody'), '--json');
    const doctor = await stack.command('doctor', '--json');

    const checkpoints = JSON.parse(listed.stdout) as Record<string, unknown>[];
    expect(checkpoints).toMatchObject([
      { step: 1, exists: true, keptBy: { kind: 'policy', why: 'all are kept' } },
      { step: 2, exists: true, keptBy: { kind: 'policy' } },
      { step: null, exists: true, keptBy: { kind: 'verdict', why: 'its verdict judged it' } },
    ]);
    for (const { bytes, ageS, expiresAt } of checkpoints) {
      expect(typeof bytes).toBe('number');
      expect(ageS).toBeGreaterThanOrEqual(0);
      expect(Date.parse(String(expiresAt))).toBeGreaterThan(Date.now() + 6 * 86_400_000);
    }
    expect(JSON.parse(gone.stdout)).toMatchObject([
      { step: 1, exists: false },
      { step: 2, exists: false },
      { step: null, exists: true },
    ]);
    expect(JSON.parse(doctor.stdout).versions).toMatchObject({
      versions: 5,
      keptBy: { policy: 2, verdict: 3 },
      wouldRemove: { versions: 0 },
      days: 7,
    });
  });

  it('keeps the versions of an ancestor while a continuation runs', async () => {
    const parent = await stack.start('parents', [
      { id: 'parent', keep: 'all', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    const parentId = rolloutIdOf('parents', 'parent');
    // Its gate is opened only once the checkpoint before that step is there.
    await stack.effects(parentId, 2);
    await stack.finish(parent);
    const input = await readInput(stack.rollouts, parentId);
    const child = await continued(input, 2);
    await stack.effects(child, 2, await sandboxOf(child));
    const none = { of: () => Promise.resolve('none' as const) };

    await collect({ keeps: none });
    expect(await there(parentId)).toEqual([1, 2, 'final']);

    await stack.finishRollouts([child]);
    await collect({ keeps: none });
    expect(await there(parentId)).toEqual([]);
  });

  it('makes room for a disk budget, the oldest first, and leaves what a verdict judged', async () => {
    const mb = 2 ** 20;
    const command = 'echo x >> effects; head -c 2097152 /dev/urandom > big; sync';
    const writes = call('bash', { command });
    const batch = await stack.start('large', [
      { id: 'task', keep: 'all', effects: 3, replies: [writes, writes, writes, done] },
    ]);
    await stack.finish(batch);
    const rolloutId = rolloutIdOf('large', 'task');
    // Of the last one its sandbox still holds a share, until its files are gone too.
    await until('each holds what was written before it', async () => {
      const { versions } = await stack.rollouts.denv.listVersions({ rolloutId, size: true });
      const sizes = versions.map(({ bytes }) => Math.round((bytes ?? 0) / mb));
      return sizes.join(' ') === '0 2 2 2';
    });
    const rules = { days: 7, budgetBytes: 5 * mb };

    await collect({ rules });
    expect(await there(rolloutId)).toEqual([1, 3, 'final']);

    await collect({ rules: { ...rules, budgetBytes: mb } });
    expect(await there(rolloutId)).toEqual([1, 'final']);
  });

  it('is the worker’s own work: one that starts removes what was left, and says so', async () => {
    const batch = await stack.start('left', [{ id: 'task', keep: 'none', effects: 2, replies }]);
    await stack.finish(batch);
    const rolloutId = rolloutIdOf('left', 'task');

    await stack.killAndAwait('worker');

    await until('its versions are gone', async () => (await there(rolloutId)).length === 0);
    const log = join(stack.home, 'logs', 'worker.log');
    await until('it says so', () =>
      Promise.resolve(readFileSync(log, 'utf8').includes('removed versions that nothing keeps')),
    );
  });
});

/** Starts a continuation of a rollout by the command line, which returns at once. */
async function continued({ rolloutId }: RolloutInput, step: number): Promise<string> {
  const args = ['fork', rolloutId, '--at', String(step), '--detach'];
  const { code, stdout, stderr } = await stack.command(...args);
  if (code !== 0) throw new Error(`fork exited ${code}: ${stderr}`);
  return stdout.trim();
}

async function sandboxOf(rolloutId: string): Promise<string> {
  let id = '';
  await until(`a sandbox of ${rolloutId}`, async () => {
    const [sandbox] = await stack.sandboxes([rolloutId]);
    id = sandbox?.state === 'running' ? sandbox.id : '';
    return id !== '';
  });
  return id;
}
