import { readdirSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectHud, resumeHud } from '../../../../denv/controllers/hud/connect';
import type { HudConnection } from '../../../../denv/controllers/hud/connection';
import { readArguments } from '../../../../denv/drivers/host/processes';
import { hudIsThere, makeCall, type ServedEnvironment, serveEnvironment } from './environment';

const signal = new AbortController().signal;
const suite = hudIsThere ? describe : describe.skip;
const titled = (name: string) =>
  hudIsThere ? name : `${name} (skipped: no Python with the hud package; see scripts/setup-hud)`;

/** One environment for a suite; each test has connections, and so sessions, of its own. */
function environments(file: string) {
  let served: ServedEnvironment | null = null;
  const open: HudConnection[] = [];
  beforeAll(async () => {
    served = await serveEnvironment(file);
  }, 60_000);
  afterEach(async () => {
    for (const connection of open.splice(0)) connection.close();
    // A session that was parked in one test would be adopted in the next.
    await Promise.all((served?.sockets.splice(0) ?? []).map(closed));
  });
  afterAll(() => served?.stop());

  const env = () => {
    if (!served) throw new Error('no environment is served');
    return served;
  };
  const keep = (connection: HudConnection) => {
    open.push(connection);
    return connection;
  };
  const connect = async () =>
    keep(await connectHud({ connect: env().connect, timeoutS: 20, signal }));
  const resume = async (state: { sessionId: string; started?: boolean }) =>
    keep(await resumeHud({ connect: env().connect, signal }, state));
  const start = async (id: string, args: Record<string, unknown> = {}) => {
    const connection = await connect();
    await connection.call(makeCall('hud/start', { id, args }));
    return connection;
  };
  return { env, connect, resume, start };
}

async function closed(socket: ServedEnvironment['sockets'][number]): Promise<void> {
  // Not by `once` of node:events, which throws what the socket was destroyed with.
  if (!socket.closed) await new Promise((done) => socket.once('close', done));
}

const grade = (connection: HudConnection, answer: unknown, more: object = {}) =>
  connection.call(makeCall('hud/grade', { answer, ...more }));
const use = (connection: HudConnection, name: string, args: object, more: object = {}) =>
  connection.call(makeCall('tools/call', { name, arguments: args }, more));
const toolNames = async (connection: HudConnection) => {
  const answer = await connection.call(makeCall('tools/list'));
  const tools = answer.kind === 'result' ? answer.result['tools'] : [];
  return (tools as { name: string }[]).map(({ name }) => name); // as the controller lists them
};
const result = (value: object) => ({ kind: 'result', result: value });
const fault = (kind: string, message: unknown) => ({
  kind: 'error',
  error: { code: expect.any(Number), message, data: { kind } },
});
const text = (value: string) => ({ content: [expect.objectContaining({ text: value })] });

suite(titled('the control channel of a real text environment'), () => {
  const { env, connect, resume, start } = environments('text_env.py');

  it('says what the environment is and lists its tasks', async () => {
    const connection = await connect();

    const answer = await connection.call(makeCall('hud/tasks'));

    const add = expect.objectContaining({
      id: 'add',
      args: expect.objectContaining({ required: ['a'] }),
    });
    const about = { name: 'text', version: '1.0.0', capabilities: [] };
    expect(connection.environment).toEqual(about);
    expect(connection.state()).toEqual({
      sessionId: expect.stringMatching(/^sess-/),
      protocolVersion: 'hud/1.0',
    });
    expect(answer).toMatchObject(
      result({ environment: about, tasks: expect.arrayContaining([add]) }),
    );
    expect(await toolNames(connection)).toEqual([]);
  });

  it('starts a task and grades it, telling when each has left', async () => {
    const marks: string[] = [];
    const connection = await connect();

    const started = await connection.call(
      makeCall('hud/start', { id: 'add', args: { a: 2, b: 3 }, env: 'text' }, { marks }),
    );
    marks.push('started');
    const graded = await connection.call(makeCall('hud/grade', { answer: '5' }, { marks }));

    expect(started).toEqual(result({ prompt: 'What is 2 + 3? Reply with just the number.' }));
    expect(graded).toEqual(result({ grade: { score: 1 }, verifier: null }));
    expect(marks).toEqual(['sending', 'sent', 'started', 'sending', 'sent']);
  });

  it.each<[string, Record<string, unknown>, unknown, object]>([
    ['add', { a: 2, b: 3 }, '6', { score: 0 }],
    ['add', { a: 2 }, undefined, { score: 0 }],
    [
      'add_detailed',
      { a: 5, b: 6 },
      '11',
      {
        score: 1,
        isError: false,
        info: { expected: 11 },
        subscores: [
          { name: 'value', value: 1, weight: 0.8 },
          { name: 'format', value: 1, weight: 0.2, info: { saw: '11' } },
        ],
      },
    ],
    ['penalty', {}, 'hello', { score: -0.5 }],
    ['chat_prompt', {}, '42', { score: 1 }],
    ['no_grade', {}, 'x', { score: 0 }],
    ['is_error', {}, 'x', { score: 0, isError: true }],
  ])('grades %s %j with the answer %j', async (id, args, answer, frame) => {
    const connection = await start(id, args);

    expect(await grade(connection, answer)).toMatchObject(result({ grade: frame, verifier: null }));
  });

  it('hands on a prompt of several messages with the keys beside it', async () => {
    const connection = await connect();

    const started = await connection.call(makeCall('hud/start', { id: 'chat_prompt' }));

    expect(started).toEqual(
      result({
        prompt: [
          { role: 'system', content: 'Be terse.' },
          { role: 'user', content: 'What is 6 * 7? Reply with just the number.' },
        ],
        note: 'keys beside the prompt come along',
      }),
    );
  });

  it('keeps what JSON cannot say and what a double cannot hold', async () => {
    const connection = await start('nan_info');

    const info = {
      loss: { $number: 'NaN' },
      high: { $number: 'Infinity' },
      low: { $number: '-Infinity' },
      big: { $number: '1152921504606846976' },
      saw: 'café',
      text: 'NaN, Infinity, 1152921504606846976',
    };
    expect(await grade(connection, 'café')).toEqual(
      result({ grade: { score: 1, info }, verifier: null }),
    );
  });

  it('gives a verifier the grade before it, number for number', async () => {
    const connection = await start('nan_info');

    const verifier = { id: 'recheck', args: { minimum: 1 } };
    const answer = await grade(connection, 'café', { verifier });

    const actor = { score: 1, info: { big: { $number: '1152921504606846976' } } };
    expect(answer).toMatchObject(
      result({ grade: actor, verifier: { score: 1, info: { actor, minimum: 1 } } }),
    );
  });

  it('lets the verifier judge a grade that failed, as HUD does', async () => {
    const connection = await start('broken_grader');

    const answer = await grade(connection, 'x', { verifier: { id: 'recheck' } });

    const failed = {
      score: 0,
      answer: 'x',
      content: 'the grading of the task raised the grader exploded',
      isError: true,
    };
    expect(answer).toMatchObject(
      result({ grade: failed, verifier: { score: 0, info: { actor: failed } } }),
    );
  });

  it('tells of a verifier that raised, with the grade that it could not judge', async () => {
    const connection = await start('add', { a: 2, b: 3 });

    const answer = await grade(connection, '5', { verifier: { id: 'broken_grader' } });

    expect(answer).toEqual({
      kind: 'error',
      error: {
        code: -32000,
        message: 'the grading of verifier "broken_grader" raised the grader exploded',
        data: { kind: 'raised', grade: { score: 1 } },
      },
    });
  });

  it('refuses a verifier with wrong arguments before the task is graded', async () => {
    const connection = await start('add', { a: 2, b: 3 });

    const verifier = { id: 'recheck', args: { minimum: 'x' } };
    const refused = await grade(connection, '5', { verifier });

    expect(refused).toEqual(
      fault('bad_task', 'arguments of task "recheck": `minimum` must be number, got "x"'),
    );
    expect(await grade(connection, '5')).toMatchObject(result({ grade: { score: 1 } }));
  });

  it.each<[string, Record<string, unknown>, RegExp | string]>([
    ['nope', {}, /^no task "nope" in this environment; there are add, add_detailed, /],
    ['add', { a: 'x' }, 'arguments of task "add": `a` must be integer, got "x"'],
    ['add', { a: '40' }, 'arguments of task "add": `a` must be integer, got "40"'],
    ['add', { a: 1.5 }, 'arguments of task "add": `a` must be integer, got 1.5'],
    ['add', {}, 'arguments of task "add": `a` is missing'],
    ['add', { a: 1, c: 2 }, 'arguments of task "add": `c` is unknown'],
  ])('refuses task %s with %j and sends nothing', async (id, args, message) => {
    const marks: string[] = [];
    const connection = await connect();

    const answer = await connection.call(makeCall('hud/start', { id, args }, { marks }));

    const said = typeof message === 'string' ? message : expect.stringMatching(message);
    expect(answer).toEqual(fault('bad_task', said));
    expect(marks).toEqual([]);
  });

  it('takes an integer where a number is wanted', async () => {
    const connection = await connect();

    const answer = await connection.call(
      makeCall('hud/start', { id: 'recheck', args: { minimum: 1 } }),
    );

    expect(answer).toMatchObject({ kind: 'result' });
  });

  it('refuses a task for another environment, or for a capability that is not there', async () => {
    const connection = await connect();
    const ask = (more: object) =>
      connection.call(makeCall('hud/start', { id: 'no_grade', ...more }));

    await expect(ask({ env: 'other' })).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'the task is for environment "other", and this one is "text"',
    });
    await expect(ask({ capabilities: ['browser'] })).rejects.toMatchObject({
      code: 'capability_missing',
      message: 'environment "text" has no capability browser; there is none',
    });
    await expect(ask({ wrong: 1 })).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('refuses a start frame that binds what the environment does not announce', async () => {
    const connection = await connect();

    const answer = await connection.call(makeCall('hud/start', { id: 'wrong_binding' }));

    expect(answer).toEqual(
      fault(
        'bad_task',
        'the start of task "wrong_binding" binds arm, which the environment does not announce; there is none',
      ),
    );
    await expect(grade(connection, 'x')).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it.each([
    ['the set-up exploded', 'the set-up exploded'],
    ['', 'an error without a message'],
    ["'key'", "'key' (a key that is missing?)"],
  ])('tells of a set-up that raised %j', async (message, said) => {
    const connection = await connect();

    const answer = await connection.call(
      makeCall('hud/start', { id: 'broken_start', args: { message } }),
    );

    expect(answer).toEqual(fault('raised', `the start of task "broken_start" raised ${said}`));
  });

  it.each([
    ['broken_grader', 'the grader exploded'],
    ['missing_key', "'solution' (a key that is missing?)"],
    [
      'bad_grade',
      "task graded with str: yield a number, an object with a numeric .reward, or a dict containing a numeric 'score'",
    ],
  ])('tells of %s, whose grading raised', async (id, said) => {
    const connection = await start(id);

    expect(await grade(connection, 'x')).toEqual(
      fault('raised', `the grading of the task raised ${said}`),
    );
    await expect(grade(connection, 'x')).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'the task is over: it is graded once, and no other is started after it',
    });
  });

  it('grades once, and starts one task', async () => {
    const connection = await start('add', { a: 2, b: 3 });
    await grade(connection, '5');

    await expect(grade(connection, '5')).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(
      connection.call(makeCall('hud/start', { id: 'add', args: { a: 1 } })),
    ).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it("never asks for the grade of another session's parked task", async () => {
    const other = await start('add', { a: 2, b: 3 });
    other.release();
    const connection = await connect();

    // What HUD itself would answer with the other's reward.
    await expect(grade(connection, '5')).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'no task was started in this environment: there is nothing to grade',
    });
    const resumed = await resume({ sessionId: other.state().sessionId ?? '', started: true });
    expect(await grade(resumed, '5')).toMatchObject(result({ grade: { score: 1 } }));
  });

  it('resumes its session when its socket breaks while nothing is out', async () => {
    const connection = await start('add', { a: 2, b: 3 });
    const { sessionId } = connection.state();
    env().sockets[0]?.destroy();

    expect(await grade(connection, '5')).toMatchObject(result({ grade: { score: 1 } }));
    expect(connection.state().sessionId).toBe(sessionId);
    expect(env().sockets).toHaveLength(2);
  });

  it('continues without its session when nothing was started in it', async () => {
    const connection = await connect();
    const { sessionId } = connection.state();
    env().sockets[0]?.destroy();

    const answer = await connection.call(
      makeCall('hud/start', { id: 'add', args: { a: 2, b: 3 } }),
    );

    expect(answer).toMatchObject({ kind: 'result' });
    expect(connection.state().sessionId).not.toBe(sessionId);
  });

  it('continues in a later process', async () => {
    const earlier = await start('add', { a: 2, b: 3 });
    const sessionId = earlier.state().sessionId ?? '';
    // As of a process that was killed: no goodbye.
    env().sockets[0]?.destroy();

    const later = await resume({ sessionId, started: true });

    expect(later.state().sessionId).toBe(sessionId);
    expect(later.environment).toEqual(earlier.environment);
    expect(await grade(later, '5')).toMatchObject(result({ grade: { score: 1 } }));
  });

  it('waits for a session that still has a live connection', async () => {
    const earlier = await start('add', { a: 2, b: 3 });
    const later = resume({ sessionId: earlier.state().sessionId ?? '', started: true });
    // It dials anew for each try: with this one, an earlier try has been refused.
    while (env().sockets.length < 3) await sleep(20);
    earlier.release();

    expect(await grade(await later, '5')).toMatchObject(result({ grade: { score: 1 } }));
  });

  it('does not grade a task whose start is not known to have succeeded', async () => {
    const earlier = await start('add', { a: 2, b: 3 });
    earlier.release();

    const later = await resume({ sessionId: earlier.state().sessionId ?? '', started: false });

    await expect(grade(later, '5')).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'the start of the task was lost: it cannot be graded',
    });
  });

  it('fails when the environment has forgotten a started task', async () => {
    const connection = await start('add', { a: 2, b: 3 });
    const gone = { sessionId: 'sess-00000000' };

    await expect(resume({ ...gone, started: true })).rejects.toMatchObject({
      code: 'controller_failed',
      message: 'the environment has forgotten its task',
    });
    expect((await resume({ ...gone, started: false })).state().sessionId).toMatch(/^sess-/);
    await connection.call(makeCall('hud/cancel'));
  });

  it('cancels a start and a grade that take too long', async () => {
    const slow = await connect();
    const started = await slow.call(
      makeCall('hud/start', { id: 'slow_start', args: { seconds: 60 } }, { timeoutS: 0.3 }),
    );
    const connection = await start('slow_grade', { seconds: 60 });
    const graded = await connection.call(makeCall('hud/grade', { answer: '5' }, { timeoutS: 0.3 }));

    expect([started, graded]).toEqual([{ kind: 'timed_out' }, { kind: 'timed_out' }]);
    // The channel has survived it, and the reply to the cancelled call was not taken for another's.
    expect(await connection.call(makeCall('hud/tasks'))).toMatchObject({ kind: 'result' });
    await expect(grade(connection, '5')).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('cancels a grade when its operation is cancelled, or by a call of its own', async () => {
    const abort = new AbortController();
    const first = await start('slow_grade', { seconds: 60 });
    const aborted = first.call(
      makeCall('hud/grade', { answer: '5' }, { signal: abort.signal, sent: () => abort.abort() }),
    );
    const second = await start('slow_grade', { seconds: 60 });
    const sent = Promise.withResolvers<void>();
    const cancelled = second.call(makeCall('hud/grade', { answer: '5' }, { sent: sent.resolve }));
    await sent.promise;
    const cancel = await second.call(makeCall('hud/cancel'));

    const answer = { kind: 'error', error: { code: -32800, message: 'cancelled' } };
    expect(await aborted).toEqual(answer);
    expect(await cancelled).toEqual(answer);
    expect(cancel).toEqual(result({ cancelled: true }));
  });

  it('is lost when the connection breaks under a grade, and is not asked again', async () => {
    const connection = await start('slow_grade', { seconds: 60 });
    const broken = connection.call(
      makeCall('hud/grade', { answer: '5' }, { sent: () => env().sockets[0]?.destroy() }),
    );

    await expect(broken).rejects.toMatchObject({ name: 'ControllerLost', sent: true });
    await expect(grade(connection, '5')).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('carries a prompt of 10 MiB, and says so when one is past the limit', async () => {
    const connection = await connect();
    const started = await connection.call(
      makeCall('hud/start', { id: 'big_prompt', args: { mib: 10 } }),
    );
    const graded = await grade(connection, `5${' '.repeat(10 * 1024 * 1024)}`);
    const other = await connect();
    const tooBig = await other.call(makeCall('hud/start', { id: 'big_prompt', args: { mib: 17 } }));

    const prompt = started.kind === 'result' ? String(started.result['prompt']) : '';
    expect(prompt).toHaveLength(
      10 * 1024 * 1024 + '\nWhat is 2 + 3? Reply with just the number.'.length,
    );
    expect(graded).toMatchObject(result({ grade: { score: 1 } }));
    expect(tooBig).toEqual(fault('protocol', expect.stringMatching(/limit is 16777216 bytes/)));
  });

  it('refuses an answer past the limit before anything is sent', async () => {
    const connection = await start('add', { a: 2, b: 3 });

    const refused = await grade(connection, 'x'.repeat(17 * 1024 * 1024));

    expect(refused).toEqual(
      fault(
        'protocol',
        expect.stringMatching(
          /^tasks.grade would be a frame of 178\d+ bytes; the limit is 16777216$/,
        ),
      ),
    );
    expect(await grade(connection, '5')).toMatchObject(result({ grade: { score: 1 } }));
  });

  it('takes leave: the task is cancelled and nothing is parked', async () => {
    const connection = await start('add', { a: 2, b: 3 });
    const { sessionId } = connection.state();
    connection.close();
    const [socket] = env().sockets;
    if (socket) await closed(socket);

    await expect(resume({ sessionId: sessionId ?? '', started: true })).rejects.toMatchObject({
      message: 'the environment has forgotten its task',
    });
    await expect(connection.call(makeCall('hud/tasks'))).rejects.toMatchObject({ sent: false });
  });

  it('takes leave of a parked task as well', async () => {
    const connection = await start('add', { a: 2, b: 3 });
    const { sessionId } = connection.state();
    env().sockets[0]?.destroy();
    connection.close();
    while (env().sockets.length < 2) await sleep(20);
    const farewell = env().sockets[1];
    if (farewell) await closed(farewell);

    await expect(resume({ sessionId: sessionId ?? '', started: true })).rejects.toMatchObject({
      message: 'the environment has forgotten its task',
    });
  });
});

suite(titled('an environment that ends'), () => {
  it('loses what was out, and what comes after was not sent', async () => {
    const env = await serveEnvironment('text_env.py');
    try {
      const connection = await connectHud({ connect: env.connect, timeoutS: 20, signal });
      const other = await connectHud({ connect: env.connect, timeoutS: 20, signal });
      await connection.call(makeCall('hud/start', { id: 'slow_grade', args: { seconds: 60 } }));
      const out = connection.call(
        makeCall('hud/grade', { answer: '5' }, { sent: () => void env.stop() }),
      );

      await expect(out).rejects.toMatchObject({ name: 'ControllerLost', sent: true });
      await env.stop();
      await expect(other.call(makeCall('hud/start', { id: 'no_grade' }))).rejects.toMatchObject({
        name: 'ControllerLost',
        sent: false,
      });
      connection.close();
      other.close();
    } finally {
      await env.stop();
    }
  }, 60_000);
});

suite(titled('the tools of one MCP capability'), () => {
  const { env, connect, start } = environments('mcp_env.py');

  it('calls them by their own names, beside the task', async () => {
    const marks: string[] = [];
    const connection = await start('count_to', { target: 3 });

    const listed = await connection.call(makeCall('tools/list'));
    const first = await use(connection, 'bump', {}, { marks });
    const second = await use(connection, 'bump', { by: 2 });

    expect(connection.environment.capabilities).toEqual([
      {
        name: 'tools',
        protocol: 'mcp/2025-11-25',
        url: expect.stringMatching(/^http:\/\/127.0.0.1:\d+\/mcp$/),
        use: 'tools',
      },
    ]);
    expect(listed).toMatchObject(
      result({
        tools: [{ name: 'bump', inputSchema: { properties: { by: { type: 'integer' } } } }],
      }),
    );
    expect([first, second]).toMatchObject([result(text('1')), result(text('3'))]);
    expect(marks).toEqual(['sending', 'sent']);
    expect(await grade(connection, 'done')).toMatchObject(
      result({ grade: { score: 1, info: { count: 3 } } }),
    );
  });

  it('calls a tool that was never listed, and names what there is instead of one that is not', async () => {
    const connection = await connect();

    expect(await use(connection, 'bump', {})).toMatchObject({ kind: 'result' });
    expect(await use(connection, 'jump', {})).toEqual({
      kind: 'error',
      error: { code: -32602, message: 'no tool "jump"; there are bump' },
    });
  });

  it('finds a capability by name and by protocol', async () => {
    const connection = await connect();
    const params = { id: 'count_to', args: {} };

    for (const wanted of ['tools', 'mcp', 'mcp/2025-11-25']) {
      const other = await connect();
      const answer = await other.call(makeCall('hud/start', { ...params, capabilities: [wanted] }));
      expect(answer).toMatchObject({ kind: 'result' });
    }
    await expect(
      connection.call(makeCall('hud/start', { ...params, capabilities: ['ssh'] })),
    ).rejects.toMatchObject({
      code: 'capability_missing',
      message: 'environment "counter" has no capability ssh; there is tools (mcp/2025-11-25)',
    });
  });

  it('continues with new streams when all its streams break', async () => {
    const connection = await start('count_to', { target: 2 });
    await use(connection, 'bump', {});
    for (const socket of env().sockets) socket.destroy();

    expect(await use(connection, 'bump', {})).toMatchObject(result(text('2')));
    expect(await grade(connection, 'done')).toMatchObject(result({ grade: { score: 1 } }));
  });
});

suite(titled('the tools of two MCP capabilities'), () => {
  const { connect, start } = environments('two_mcp_env.py');

  it('tells them apart by the names of their capabilities, over HTTP with a token and over SSE', async () => {
    const connection = await start('count_and_note', { target: 2 });

    expect(await toolNames(connection)).toEqual([
      'counter__bump',
      'counter__reset',
      'notes__write',
      'notes__reset',
    ]);
    await use(connection, 'counter__bump', { by: 5 });
    await use(connection, 'counter__reset', {});
    expect(await use(connection, 'counter__bump', { by: 2 })).toMatchObject(result(text('2')));
    expect(await use(connection, 'notes__write', { text: '2' })).toMatchObject(result(text('1')));
    expect(await grade(connection, 'done')).toMatchObject(result({ grade: { score: 1 } }));
  });

  it('shows no token', async () => {
    const connection = await connect();

    const shown = [
      connection.environment,
      connection.state(),
      await connection.call(makeCall('hud/tasks')),
    ];

    expect(JSON.stringify(shown)).not.toMatch(/token/);
    expect(connection.environment.capabilities.map(({ name, use }) => [name, use])).toEqual([
      ['counter', 'tools'],
      ['notes', 'tools'],
    ]);
  });
});

suite(titled('the shell of a workspace'), () => {
  const { env, connect, start } = environments('workspace_env.py');

  it('works in the folder of the workspace', async () => {
    const connection = await start('write_answer', { value: 42 });

    const names = await toolNames(connection);
    // By its number, as where HUD isolates by bubblewrap the folder has another name inside.
    const command = 'stat -c %i .; echo "it\'s" >&2; exit 3';
    const where = await use(connection, 'bash', { command });
    const written = await use(connection, 'write_file', { path: 'answer.txt', content: '42\n' });
    const read = await use(connection, 'read_file', { path: 'answer.txt' });
    const deep = await use(connection, 'write_file', { path: "a b/c'd/é.txt", content: 'café' });
    const missing = await use(connection, 'read_file', { path: 'nope' });

    const root = join(env().folder, 'workspace');
    expect(names).toEqual(['bash', 'read_file', 'write_file']);
    expect(where).toMatchObject(
      result({ isError: true, ...text(`${statSync(root).ino}\n\nstderr:\nit's\n\n[exit code 3]`) }),
    );
    expect([written, read]).toMatchObject([result(text('written')), result(text('42\n'))]);
    expect(deep).toMatchObject(result({ isError: false }));
    expect(await readFile(join(root, "a b/c'd/é.txt"), 'utf8')).toBe('café');
    expect(missing).toMatchObject(result({ isError: true }));
    expect(await grade(connection, 'done')).toMatchObject(result({ grade: { score: 1 } }));
  });

  it('says how it is isolated, lists what else there is, and shows no key', async () => {
    const connection = await connect();

    const { capabilities } = connection.environment;

    expect(capabilities).toEqual([
      {
        name: 'shell',
        protocol: 'ssh/2',
        url: expect.stringMatching(/^ssh:\/\/127.0.0.1:\d+$/),
        use: 'tools',
        isolation: expect.stringMatching(/^(none|bwrap)$/),
      },
      {
        name: 'filetracking',
        protocol: 'filetracking/1',
        url: expect.stringMatching(/^tcp:\/\/127.0.0.1:\d+$/),
        use: 'address',
      },
    ]);
    expect(JSON.stringify(await connection.call(makeCall('hud/tasks')))).not.toMatch(
      /KEY|client_key/,
    );
  });

  it('ends a command at its time, with what it has started', async () => {
    const connection = await connect();

    const length = `100.${process.pid}`;
    const command = `sleep ${length} & echo up > started; sleep ${length}`;
    const answer = await use(connection, 'bash', { command }, { timeoutS: 1 });

    expect(answer).toEqual({ kind: 'timed_out' });
    const root = join(env().folder, 'workspace');
    expect(await readFile(join(root, 'started'), 'utf8')).toBe('up\n');
    await endOf(['sleep', length]);
  });

  it('runs several commands at once', async () => {
    const connection = await connect();

    const answers = await Promise.all(
      [1, 2, 3, 4].map((n) => use(connection, 'bash', { command: `sleep 0.2; echo ${n}` })),
    );

    expect(answers).toMatchObject([1, 2, 3, 4].map((n) => result(text(`${n}\n\n[exit code 0]`))));
  });

  it('opens the shell again when its stream breaks', async () => {
    const connection = await connect();
    await use(connection, 'bash', { command: 'true' });
    env().sockets[1]?.destroy();

    expect(await use(connection, 'bash', { command: 'echo again' })).toMatchObject(
      result(text('again\n\n[exit code 0]')),
    );
  });

  it('is lost when its stream breaks under a command', async () => {
    const connection = await connect();
    await use(connection, 'bash', { command: 'true' });

    const out = use(
      connection,
      'bash',
      { command: 'sleep 60' },
      { sent: () => env().sockets[1]?.destroy() },
    );

    await expect(out).rejects.toMatchObject({ name: 'ControllerLost', sent: true });
  });

  it('refuses arguments of the wrong shape', async () => {
    const connection = await connect();

    expect(await use(connection, 'bash', { command: 1 })).toEqual({
      kind: 'error',
      error: { code: -32602, message: 'arguments of bash: `command` must be a string' },
    });
  });
});

/**
 * Resolves when no process has these arguments; the test's own time limit is the only one. Looked for from here, as the pids of
 * an isolated workspace are its own.
 */
async function endOf(argv: string[]): Promise<void> {
  const runs = () => {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return pids.some((pid) => readArguments(Number(pid)).join(' ') === argv.join(' '));
  };
  while (runs()) await sleep(50);
}
