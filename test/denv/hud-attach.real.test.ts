import { HudProcess } from './hud-process';
import { ServerProcess, until } from './server-process';

const server = new ServerProcess();
let hud: HudProcess;
let serial = 0;
const newKey = (name: string) => `${name}/${++serial}`;

const attach = (key = newKey('attach'), shared?: number) =>
  server.client.createSandbox(
    {
      address: hud.address,
      controller: { kind: 'hud', timeoutS: 20 },
      ...(shared ? { shared } : {}),
    },
    { key },
  );
const call = (
  id: string,
  method: 'hud/start' | 'hud/grade' | 'hud/tasks',
  params: Record<string, unknown> = {},
  key = newKey(method),
) => server.client.call(id, { method, params, timeoutS: 60 }, { key });
const add = { id: 'add', args: { a: 2, b: 3 } };

beforeAll(() => server.start(), 60_000);
afterAll(() => server.end(), 60_000);
beforeEach(async () => {
  hud = new HudProcess();
  await hud.start('text_env.py');
});
afterEach(() => hud.end());
jest.setTimeout(60_000);

describe('a HUD environment that somebody else started', () => {
  it('starts one task, grades it once and ends its session', async () => {
    const sandbox = await attach();

    const started = await call(sandbox.id, 'hud/start', add);
    const graded = await call(sandbox.id, 'hud/grade', { answer: '5' });
    await server.client.deleteSandbox(sandbox.id);

    expect(sandbox).toMatchObject({
      target: 'tcp',
      controller: { kind: 'hud', hud: { name: 'text', version: '1.0.0', capabilities: [] } },
    });
    expect(started.result).toEqual({ prompt: 'What is 2 + 3? Reply with just the number.' });
    expect(graded.result).toEqual({ grade: { score: 1 }, verifier: null });
    await until('a bye', () => Promise.resolve(hud.count('bye') === 1));
  });

  it('refuses a second start, a second grade, and a grade before any start', async () => {
    const { id } = await attach();

    await expect(call(id, 'hud/grade', { answer: '5' })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('has started no task'),
    });
    await call(id, 'hud/start', add);
    await expect(call(id, 'hud/start', add)).rejects.toMatchObject({ code: 'invalid_request' });
    const first = await call(id, 'hud/grade', { answer: '5' }, 'grade/once');
    await expect(call(id, 'hud/grade', { answer: '5' })).rejects.toMatchObject({
      code: 'invalid_request',
      message: `sandbox ${id} has been graded before, by grade/once`,
    });
    const again = await call(id, 'hud/grade', { answer: '5' }, 'grade/once');

    expect(again).toEqual(first);
    expect(hud.count('tasks.start')).toBe(1);
    expect(hud.count('tasks.grade')).toBe(1);
    await server.client.deleteSandbox(id);
  });

  it('never grades what another sandbox started there', async () => {
    const one = await attach(newKey('attach'), 2);
    const two = await attach(newKey('attach'), 2);
    await call(one.id, 'hud/start', add);

    await expect(call(two.id, 'hud/grade', { answer: '5' })).rejects.toMatchObject({
      code: 'invalid_request',
    });

    expect(hud.count('tasks.grade')).toBe(0);
    await server.client.deleteSandbox(one.id);
    await server.client.deleteSandbox(two.id);
  });

  it('serves one sandbox at a time unless told otherwise', async () => {
    const first = await attach();

    await expect(attach()).rejects.toMatchObject({
      code: 'over_capacity',
      message: `${hud.address} is taken by ${first.id}`,
    });
    await server.client.deleteSandbox(first.id);
    const second = await attach();

    await server.client.deleteSandbox(second.id);
  });

  it('takes arguments by the schema of the task alone, before anything is sent', async () => {
    const { id } = await attach();

    const wrong = await call(id, 'hud/start', { id: 'add', args: { a: 'x' } });
    const unknown = await call(id, 'hud/start', { id: 'nope' });

    expect(wrong.error).toMatchObject({ data: { kind: 'bad_task' } });
    expect(wrong.error?.message).toContain('a');
    expect(unknown.error).toMatchObject({ data: { kind: 'bad_task' } });
    expect(hud.count('tasks.start')).toBe(0);
    // What was never sent does not use up the one start.
    const started = await call(id, 'hud/start', add);
    expect(started.result).toMatchObject({ prompt: expect.stringContaining('2 + 3') });
    await server.client.deleteSandbox(id);
  });

  it('refuses what nobody here can give, by name', async () => {
    const { id } = await attach();

    for (const asked of [
      server.client.exec(id, { argv: ['true'] }, { key: newKey('exec') }),
      server.client.snapshot(id, {}, { key: newKey('snapshot') }),
      server.client.fork(id, {}, { key: newKey('fork') }),
      server.client.verify(
        id,
        { verifier: { image: 'host', command: ['true'] } },
        { key: newKey('verify') },
      ),
    ]) {
      await expect(asked).rejects.toMatchObject({
        code: 'capability_missing',
        message: expect.stringContaining('target tcp has no'),
      });
    }
    await expect(
      server.client.createSandbox(
        { address: hud.address, caps: { cpus: 1 }, controller: { kind: 'hud' } },
        { key: newKey('caps') },
      ),
    ).rejects.toMatchObject({ message: 'caps: not on target tcp' });
    await server.client.deleteSandbox(id);
  });

  it('says what it saw when nothing answers there', async () => {
    await expect(
      server.client.createSandbox(
        { address: '127.0.0.1:9', controller: { kind: 'hud', timeoutS: 1 } },
        { key: newKey('dead') },
      ),
    ).rejects.toMatchObject({
      code: 'controller_failed',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });
});

describe('the denv server killed', () => {
  it.each(['SIGKILL', 'SIGTERM'] as const)(
    'by %s between start and grade: the parked task is taken up, and started once',
    async (signal) => {
      const { id } = await attach();
      await call(id, 'hud/start', add);

      await server.killAndStart(signal);
      const graded = await call(id, 'hud/grade', { answer: '5' });

      expect(graded.result).toEqual({ grade: { score: 1 }, verifier: null });
      expect(hud.count('tasks.start')).toBe(1);
      await server.client.deleteSandbox(id);
    },
  );

  it('in a grade: its outcome is unknown for good, and nobody grades again', async () => {
    const { id } = await attach();
    await call(id, 'hud/start', { id: 'slow_grade', args: { seconds: 30 } });
    const grading = call(id, 'hud/grade', { answer: '5' }, 'grade/lost').catch(() => undefined);
    await until('the grade is out', () => Promise.resolve(hud.count('tasks.grade') === 1));

    await server.killAndStart();
    await grading;

    await expect(call(id, 'hud/grade', { answer: '5' }, 'grade/lost')).rejects.toMatchObject({
      code: 'outcome_unknown',
    });
    await expect(call(id, 'hud/grade', { answer: '5' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    expect(hud.count('tasks.grade')).toBe(1);
    await server.client.deleteSandbox(id);
  });

  it('in a start: its outcome is unknown, and it is not started again', async () => {
    const { id } = await attach();
    const starting = call(id, 'hud/start', { id: 'slow_start' }, 'start/lost').catch(
      () => undefined,
    );
    await until('the start is out', () => Promise.resolve(hud.count('tasks.start') === 1));

    await server.killAndStart();
    await starting;

    await expect(call(id, 'hud/start', { id: 'slow_start' }, 'start/lost')).rejects.toMatchObject({
      code: 'outcome_unknown',
    });
    expect(hud.count('tasks.start')).toBe(1);
    await server.client.deleteSandbox(id);
  });
});

describe('an environment that dies', () => {
  it('in a grade leaves its outcome unknown', async () => {
    const { id } = await attach();
    await call(id, 'hud/start', { id: 'slow_grade', args: { seconds: 30 } });
    const grading = call(id, 'hud/grade', { answer: '5' });
    await until('the grade is out', () => Promise.resolve(hud.count('tasks.grade') === 1));

    await Promise.all([
      expect(grading).rejects.toMatchObject({ code: 'outcome_unknown' }),
      hud.end(),
    ]);

    await server.client.deleteSandbox(id);
  });
});
