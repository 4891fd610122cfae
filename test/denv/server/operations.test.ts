import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { DenvError } from '../../../denv/errors';
import { Journal } from '../../../denv/server/journal';
import { digestOf, Operations, RolledBack } from '../../../denv/server/operations';

const log = pino({ level: 'silent' });

describe('Operations', () => {
  let folder: string;
  let journal: Journal;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'denv-operations-'));
    journal = new Journal(join(folder, 'journal.db'));
  });
  afterEach(() => {
    journal.close();
    rmSync(folder, { recursive: true });
  });

  const start = (operations: Operations, key: string, effect: unknown = {}) =>
    operations.start({
      key,
      kind: 'count',
      sandbox: 'sb',
      effect,
      prepare: () => Promise.resolve(effect),
    });

  function counting() {
    const operations = new Operations(journal, log);
    const runs: string[] = [];
    operations.register('count', (operation) => {
      runs.push(operation.key);
      return Promise.resolve({ n: runs.length });
    });
    return { operations, runs };
  }

  it('returns the kept outcome to the same key and runs it once', async () => {
    const { operations, runs } = counting();

    const first = await start(operations, 'k');
    const second = await start(operations, 'k');

    expect([first, second]).toEqual([
      { status: 200, body: { n: 1 } },
      { status: 200, body: { n: 1 } },
    ]);
    expect(runs).toEqual(['k']);
  });

  it('lets two callers at once share one run', async () => {
    const { operations, runs } = counting();

    await Promise.all([start(operations, 'k'), start(operations, 'k')]);

    expect(runs).toEqual(['k']);
  });

  it('refuses another request under a used key, while it runs and after', async () => {
    const { operations } = counting();

    const running = start(operations, 'k', { a: 1 });
    await expect(start(operations, 'k', { a: 2 })).rejects.toMatchObject({ code: 'key_conflict' });
    await running;
    await expect(start(operations, 'k', { a: 2 })).rejects.toMatchObject({ code: 'key_conflict' });
  });

  it('keeps an error outcome whose effect began', async () => {
    const operations = new Operations(journal, log);
    let runs = 0;
    operations.register('count', () => {
      runs += 1;
      throw new DenvError('controller_failed', 'not ready');
    });

    const outcomes = [await start(operations, 'k'), await start(operations, 'k')];

    expect(outcomes.map((o) => o.status)).toEqual([422, 422]);
    expect(runs).toBe(1);
  });

  it('keeps nothing of a refusal before any effect', async () => {
    const { operations, runs } = counting();
    const refused = operations.start({
      key: 'k',
      kind: 'count',
      sandbox: 'sb',
      effect: {},
      prepare: () => Promise.reject(new DenvError('disk_full', 'full')),
    });

    await expect(refused).rejects.toMatchObject({ code: 'disk_full' });
    await start(operations, 'k');

    expect(runs).toEqual(['k']);
  });

  it('lets a rolled back operation begin again', async () => {
    const operations = new Operations(journal, log);
    let runs = 0;
    operations.register('count', () => {
      runs += 1;
      if (runs === 1) throw new RolledBack(new DenvError('unavailable', 'gone'));
      return Promise.resolve({ n: runs });
    });

    await expect(start(operations, 'k')).rejects.toMatchObject({ code: 'unavailable' });

    expect(await start(operations, 'k')).toEqual({ status: 200, body: { n: 2 } });
  });

  it('goes on with what an earlier process left running, knowing its phase', async () => {
    journal.beginOperation({
      key: 'k',
      kind: 'count',
      sandbox: 'sb',
      digest: 'd',
      request: { a: 1 },
    });
    journal.setPhase('k', { sending: true });
    const operations = new Operations(journal, log);
    const seen: unknown[] = [];
    operations.register('count', ({ request, phase, resumed }) => {
      seen.push({ request, phase, resumed });
      return Promise.resolve('done');
    });

    operations.resume();
    await operations.find('k')?.outcome;

    expect(seen).toEqual([{ request: { a: 1 }, phase: { sending: true }, resumed: true }]);
    expect(journal.operation('k')?.body).toBe('done');
  });

  it('aborts the work of a cancelled operation and waits for its end', async () => {
    const operations = new Operations(journal, log);
    operations.register('count', async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return 'cancelled';
    });
    const running = start(operations, 'k');

    await new Promise((resolve) => setImmediate(resolve));
    await operations.cancel('k');

    expect(await running).toEqual({ status: 200, body: 'cancelled' });
  });

  it('leaves a line in the log when what an outcome left could not be removed', async () => {
    const lines: string[] = [];
    const operations = new Operations(
      journal,
      pino({ base: null }, { write: (line) => void lines.push(line) }),
    );
    operations.register('count', (operation) => {
      operation.afterFinish(() => Promise.reject(new Error('EBUSY')));
      return Promise.resolve({});
    });

    await start(operations, 'k');
    await new Promise((resolve) => setImmediate(resolve));

    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      expect.objectContaining({
        key: 'k',
        msg: 'what an operation left could not be removed',
        err: expect.objectContaining({ message: 'EBUSY' }),
      }),
    ]);
  });

  it('commits the writes of an outcome together with it', async () => {
    const operations = new Operations(journal, log);
    operations.register('count', (operation) => {
      operation.atFinish(() => journal.record('sb', 'verified', { reward: 1 }));
      return Promise.resolve({});
    });

    await start(operations, 'k');

    expect(journal.records('sb')).toMatchObject([{ event: 'verified', data: { reward: 1 } }]);
  });
});

describe('digestOf', () => {
  it.each([
    [{ a: 1, b: [1, 2] }, { b: [1, 2], a: 1 }, true],
    [{ a: 1, b: undefined }, { a: 1 }, true],
    [{ a: [1, 2] }, { a: [2, 1] }, false],
    [{ a: '1' }, { a: 1 }, false],
  ])('of %j and %j is the same: %s', (left, right, same) => {
    expect(digestOf(left) === digestOf(right)).toBe(same);
  });
});
