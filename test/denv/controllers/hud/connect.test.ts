import { createServer } from 'node:http';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectHud, resumeHud } from '../../../../denv/controllers/hud/connect';
import type { HudConnection } from '../../../../denv/controllers/hud/connection';
import { dial, makeCall } from './environment';
import { HELLO, type Peer, scriptedHud, type ScriptedHud } from './scripted-hud';

const signal = new AbortController().signal;
const TASKS = { tasks: [{ id: 't', description: 'd', args: { type: 'object' } }] };

describe('connectHud', () => {
  it('dials until the environment answers', async () => {
    let refused = 2;
    const server = await scriptedHud({});
    const connect = () => {
      refused -= 1;
      return refused >= 0 ? Promise.reject(new Error('refused')) : server.connect();
    };

    const connection = await connectHud({ connect, timeoutS: 10, signal });

    expect(refused).toBe(-1);
    expect(connection.environment).toEqual({ name: 'scripted', version: null, capabilities: [] });
    connection.release();
    await server.stop();
  });

  it('dials again when a proxy takes the connection and nothing is behind it yet', async () => {
    let calls = 0;
    const server = await scriptedHud({
      hello: (peer) => {
        calls += 1;
        if (calls < 3) peer.socket.end();
        else peer.reply(HELLO);
      },
    });

    const connection = await connectHud({ connect: server.connect, timeoutS: 10, signal });

    expect(calls).toBe(3);
    connection.release();
    await server.stop();
  });

  it('says what it saw last when the time is over', async () => {
    const connect = () => Promise.reject(new Error('connect ECONNREFUSED'));
    const silent = await scriptedHud({ hello: () => undefined });

    await expect(connectHud({ connect, timeoutS: 0.2, signal })).rejects.toMatchObject({
      code: 'controller_failed',
      message: 'the HUD environment did not answer hello within 0.2 s: connect ECONNREFUSED',
    });
    await expect(
      connectHud({ connect: silent.connect, timeoutS: 0.2, signal }),
    ).rejects.toMatchObject({
      message: 'the HUD environment did not answer hello within 0.2 s: no answer',
    });
    await silent.stop();
  });

  it.each<[string, (peer: Peer) => void, RegExp]>([
    [
      'a line of another protocol',
      (peer) => peer.say('220 smtp\n'),
      /a line that is no JSON: "220 smtp"/,
    ],
    ['a refusal', (peer) => peer.fail(-32601, 'no hello'), /it refused hello: no hello/],
    [
      'another reply',
      (peer) => peer.reply({ capabilities: {} }),
      /its answer to hello is not one of HUD/,
    ],
  ])('fails at once at %s', async (_, hello, message) => {
    const server = await scriptedHud({ hello });

    await expect(
      connectHud({ connect: server.connect, timeoutS: 60, signal }),
    ).rejects.toMatchObject({ code: 'controller_failed', message: expect.stringMatching(message) });
    expect(server.frames).toHaveLength(1);
    await server.stop();
  });

  it('fails at once at a web server', async () => {
    const web = createServer((_, response) => response.end('hello'));
    await new Promise<void>((listening) => web.listen(0, '127.0.0.1', listening));
    const { port } = web.address() as { port: number }; // listening on TCP

    await expect(
      connectHud({ connect: () => dial(port), timeoutS: 60, signal }),
    ).rejects.toMatchObject({ code: 'controller_failed', message: /no HUD control channel/ });
    web.close();
  });

  it('ends with its reason when it is aborted', async () => {
    const abort = new AbortController();
    const reason = new Error('the sandbox ended');
    const connect = () => {
      setImmediate(() => abort.abort(reason));
      return Promise.reject(new Error('refused'));
    };
    const waiting = connectHud({ connect, timeoutS: 60, signal: abort.signal });
    const hanging = connectHud({
      connect: () => new Promise<Socket>(() => undefined),
      timeoutS: 60,
      signal: abort.signal,
    });

    await expect(waiting).rejects.toBe(reason);
    await expect(hanging).rejects.toBe(reason);
  });
});

describe('a HUD connection', () => {
  let server: ScriptedHud | null = null;
  let connection: HudConnection | null = null;
  afterEach(async () => {
    connection?.release();
    await server?.stop();
    jest.useRealTimers();
  });

  const open = async (script: Record<string, (peer: Peer) => void>) => {
    server = await scriptedHud({
      'tasks.list': (peer) => peer.reply(TASKS),
      'tasks.start': (peer) => peer.reply({ prompt: 'p' }),
      'tasks.cancel': (peer) => peer.reply({ cancelled: true }),
      bye: (peer) => peer.reply({ goodbye: true }),
      ...script,
    });
    connection = await connectHud({ connect: server.connect, timeoutS: 10, signal });
    return { server, connection };
  };
  const methods = () => server?.frames.map(({ method }) => method);

  it.each<[string, object | string, string]>([
    ['no score', { done: true }, 'the grading of the task gave no finite score'],
    ['a score that is no number', { score: true }, 'the grading of the task gave no finite score'],
    ['NaN', '{"id":ID,"result":{"score":NaN}}\n', 'the grading of the task gave no finite score'],
  ])('takes no grade with %s', async (_, frame, message) => {
    const opened = await open({
      'tasks.grade': (peer) =>
        typeof frame === 'string'
          ? peer.say(frame.replace('ID', String(peer.frame.id)))
          : peer.reply(frame),
    });
    await opened.connection.call(makeCall('hud/start', { id: 't' }));

    expect(await opened.connection.call(makeCall('hud/grade', { answer: '' }))).toEqual({
      kind: 'error',
      error: { code: -32603, message, data: { kind: 'protocol' } },
    });
  });

  it('takes an integer beyond 2^53 for the number it is near', async () => {
    const opened = await open({
      'tasks.grade': (peer) =>
        peer.say(`{"id":${peer.frame.id},"result":{"score":1152921504606846976}}\n`),
    });
    await opened.connection.call(makeCall('hud/start', { id: 't' }));

    expect(await opened.connection.call(makeCall('hud/grade', { answer: '' }))).toMatchObject({
      result: { grade: { score: 2 ** 60 } },
    });
  });

  it('asks only for the cancel of an older server whose grade it hears nothing of, and hangs up', async () => {
    const ended = Promise.withResolvers<void>();
    const opened = await open({
      'tasks.grade': (peer) => peer.socket.once('end', ended.resolve),
      'tasks.cancel': () => undefined,
    });
    await opened.connection.call(makeCall('hud/start', { id: 't' }));

    const answer = await opened.connection.call(
      makeCall('hud/grade', { answer: '' }, { timeoutS: 0.1 }),
    );

    expect(answer).toEqual({ kind: 'timed_out' });
    await ended.promise;
    expect(methods()?.slice(-2)).toEqual(['tasks.grade', 'tasks.cancel']);
  });

  it('asks whether its connection lives before it sends what cannot be sent twice', async () => {
    let grades = 0;
    const opened = await open({
      hello: (peer) => {
        // A path that has died without a word shows at the first thing that is sent on it.
        if (server?.sockets.length === 1 && server.frames.some((f) => f.method === 'tasks.start')) {
          peer.socket.destroy();
        } else peer.reply(HELLO);
      },
      'tasks.grade': (peer) => {
        grades += 1;
        peer.reply({ score: 1 });
      },
    });
    await opened.connection.call(makeCall('hud/start', { id: 't' }));

    const answer = await opened.connection.call(makeCall('hud/grade', { answer: '' }));

    expect(answer).toMatchObject({ result: { grade: { score: 1 } } });
    expect(grades).toBe(1);
    expect(server?.frames.at(-2)).toMatchObject({
      method: 'hello',
      params: { session_id: 'sess-1' },
    });
  });

  it('sends a heartbeat while nothing is out, and none under a grade', async () => {
    jest.useFakeTimers({
      doNotFake: [
        'nextTick',
        'setImmediate',
        'setTimeout',
        'queueMicrotask',
        'performance',
        'Date',
        'clearTimeout',
      ],
    });
    const beat = Promise.withResolvers<Peer>();
    const grade = Promise.withResolvers<Peer>();
    const opened = await open({
      hello: (peer) => {
        peer.reply(HELLO);
        if (peer.frame.params['session_id'] === 'sess-1') beat.resolve(peer);
      },
      'tasks.grade': grade.resolve,
    });

    jest.advanceTimersByTime(60_000);
    await beat.promise;
    expect(methods()).toEqual(['hello', 'hello']);
    await opened.connection.call(makeCall('hud/start', { id: 't' }));
    const graded = opened.connection.call(makeCall('hud/grade', { answer: '' }));
    const peer = await grade.promise;
    const before = server?.frames.length;
    jest.advanceTimersByTime(7 * 3600 * 1000);
    peer.reply({ score: 0.5 });

    expect(await graded).toMatchObject({ result: { grade: { score: 0.5 } } });
    expect(server?.frames.length).toBe(before);
  });

  it('says goodbye when it is closed, and cancels a task that was not graded', async () => {
    const opened = await open({});
    await opened.connection.call(makeCall('hud/start', { id: 't' }));
    const [socket] = opened.server.sockets;
    opened.connection.close();
    await new Promise((ended) => socket?.once('end', ended));

    expect(methods()?.slice(-2)).toEqual(['tasks.cancel', 'bye']);
  });

  it('hangs up on an environment that does not answer its goodbye', async () => {
    const opened = await open({ bye: () => undefined });
    const [socket] = opened.server.sockets;
    opened.connection.close();
    await new Promise((ended) => socket?.once('end', ended));

    expect(methods()?.at(-1)).toBe('bye');
  });

  it('is released without a word', async () => {
    const opened = await open({});
    await opened.connection.call(makeCall('hud/start', { id: 't' }));
    const [socket] = opened.server.sockets;
    opened.connection.release();
    await new Promise((ended) => socket?.once('end', ended));

    expect(methods()?.at(-1)).toBe('tasks.start');
  });

  it('answers one task call at a time, in their order', async () => {
    const starts: Peer[] = [];
    const opened = await open({
      'tasks.start': (peer) => {
        starts.push(peer);
        setImmediate(() => peer.reply({ prompt: 'p' }));
      },
      'tasks.grade': (peer) => peer.reply({ score: starts.length }),
    });

    const both = await Promise.all([
      opened.connection.call(makeCall('hud/start', { id: 't' })),
      opened.connection.call(makeCall('hud/grade', { answer: '' })),
    ]);

    expect(both).toMatchObject([{ result: { prompt: 'p' } }, { result: { grade: { score: 1 } } }]);
  });

  it('does not know other methods', async () => {
    const opened = await open({});

    expect(await opened.connection.call(makeCall('prompts/list'))).toEqual({
      kind: 'error',
      error: { code: -32601, message: 'no method prompts/list' },
    });
  });

  it('never shows what a capability is reached with', async () => {
    const opened = await open({
      hello: (peer) =>
        peer.reply({
          ...HELLO,
          bindings: [
            {
              name: 'screen',
              protocol: 'rfb/3.8',
              url: 'rfb://u:secret-1@h:5900',
              params: { display: 0, password: 'secret-2' },
            },
            {
              name: 'arm',
              protocol: 'openpi/0',
              url: 'ws://h:9091/p?token=secret-3#secret-4',
              params: { contract: {} },
            },
            {
              name: 'shell',
              protocol: 'ssh/2',
              url: 'ssh://127.0.0.1:22',
              params: { client_key: 'secret-5', isolation: 'none' },
            },
            {
              name: 'other',
              protocol: 'ssh/2',
              url: 'ssh://127.0.0.1:23',
              params: { client_key: 'secret-6' },
            },
          ],
        }),
    });

    expect(opened.connection.environment.capabilities).toEqual([
      { name: 'screen', protocol: 'rfb/3.8', url: 'rfb://h:5900', use: 'address' },
      { name: 'arm', protocol: 'openpi/0', url: 'ws://h:9091/p', use: 'address' },
      {
        name: 'shell',
        protocol: 'ssh/2',
        url: 'ssh://127.0.0.1:22',
        use: 'tools',
        isolation: 'none',
      },
      { name: 'other', protocol: 'ssh/2', url: 'ssh://127.0.0.1:23', use: 'address' },
    ]);
  });

  it('names what is missing when a capability is asked for that is not there', async () => {
    const bindings = [{ name: 'screen', protocol: 'rfb/3.8', url: 'rfb://h:5900', params: {} }];
    const opened = await open({ hello: (peer) => peer.reply({ ...HELLO, bindings }) });

    await expect(
      opened.connection.call(makeCall('hud/start', { id: 't', capabilities: ['rfb', 'cdp'] })),
    ).rejects.toMatchObject({
      code: 'capability_missing',
      message: 'environment "scripted" has no capability cdp; there is screen (rfb/3.8)',
    });
    expect(methods()).not.toContain('tasks.start');
  });
});

describe('resumeHud', () => {
  it('gives up on an environment that is not there any more', async () => {
    jest.useFakeTimers({
      now: 0,
      doNotFake: [
        'nextTick',
        'setImmediate',
        'setTimeout',
        'setInterval',
        'queueMicrotask',
        'performance',
      ],
    });
    const gone = createTcpServer();
    const connect = () => {
      jest.setSystemTime(Date.now() + 6000);
      return Promise.reject(new Error('connect ECONNREFUSED'));
    };

    await expect(
      resumeHud({ connect, signal }, { sessionId: 's', started: true }),
    ).rejects.toMatchObject({
      code: 'controller_failed',
      message: 'the HUD environment was not reached again: connect ECONNREFUSED',
    });
    jest.useRealTimers();
    gone.close();
  });

  it('takes another session than the one it asked for as none', async () => {
    const server = await scriptedHud({
      hello: (peer) => peer.reply({ ...HELLO, session_id: 'sess-2' }),
    });

    await expect(
      resumeHud({ connect: server.connect, signal }, { sessionId: 'sess-1', started: true }),
    ).rejects.toMatchObject({ message: 'the environment has forgotten its task' });
    await sleep(0);
    await server.stop();
  });
});
