import { StartLimit } from '../../../denv/server/start-limit';

const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Starts that each wait until they are let go. */
function heldStarts() {
  const held: (() => void)[] = [];
  const begun: string[] = [];
  const start = (name: string) => async () => {
    begun.push(name);
    await new Promise<void>((resolve) => held.push(resolve));
    return name;
  };
  return { start, begun, letGo: () => held.shift()?.() };
}

describe('StartLimit', () => {
  it('never runs more than the limit, also when one comes at the moment that another ends', async () => {
    const limit = new StartLimit(2);
    let running = 0;
    let most = 0;
    const start = async () => {
      running += 1;
      most = Math.max(most, running);
      await settled();
      running -= 1;
    };
    const late: Promise<void>[] = [];
    const starts = Array.from({ length: 6 }, () =>
      limit.run(never, start).then(() => {
        late.push(limit.run(never, start));
      }),
    );

    await Promise.all(starts);
    await Promise.all(late);

    expect(most).toBe(2);
  });

  it('begins the waiting ones in the order they came', async () => {
    const limit = new StartLimit(1);
    const { start, begun, letGo } = heldStarts();
    const runs = ['a', 'b', 'c'].map((name) => limit.run(never, start(name)));

    for (const run of runs) {
      await settled();
      letGo();
      await run;
    }

    expect(begun).toEqual(['a', 'b', 'c']);
  });

  it('ends the wait of an aborted start at once, and never begins it', async () => {
    const limit = new StartLimit(1);
    const { start, begun, letGo } = heldStarts();
    const first = limit.run(never, start('first'));
    const abort = new AbortController();
    const second = limit.run(abort.signal, start('second'));
    const third = limit.run(never, start('third'));
    await settled();

    abort.abort(new Error('deleted'));
    await expect(second).rejects.toThrow('deleted');
    letGo();
    await first;
    await settled();
    letGo();
    await third;

    expect(begun).toEqual(['first', 'third']);
  });

  it('leaves the end of a start that has begun to that start', async () => {
    const limit = new StartLimit(1);
    const { start, letGo } = heldStarts();
    const abort = new AbortController();
    const run = limit.run(abort.signal, start('a'));
    await settled();

    abort.abort();
    letGo();

    expect(await run).toBe('a');
  });

  it('takes the next one after a start that failed', async () => {
    const limit = new StartLimit(1);
    const failed = limit.run(never, () => Promise.reject(new Error('no memory')));
    const next = limit.run(never, () => Promise.resolve('next'));

    await expect(failed).rejects.toThrow('no memory');
    expect(await next).toBe('next');
  });
});
