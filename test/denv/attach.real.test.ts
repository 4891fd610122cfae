import { randomBytes } from 'node:crypto';
import type { WebSocket } from 'ws';
import type { AttachStart } from '../../contracts/denv';
import { attach } from './attach-client';
import { ServerProcess, until } from './server-process';

const echo =
  `require('node:net').createServer({ allowHalfOpen: true }, (s) => s.pipe(s))` +
  `.listen(7000, '127.0.0.1');` +
  // Says how much came before the other side's end, and only then.
  `require('node:net').createServer({ allowHalfOpen: true }, (s) => { let n = 0;` +
  `s.on('data', (d) => { n += d.length; }).on('end', () => s.end(String(n))); }).listen(7001, '127.0.0.1');` +
  `require('node:fs').writeFileSync('/workspace/up', '');`;

const server = new ServerProcess();
let sandbox = '';
let count = 0;
const key = () => `attach-${(count += 1)}`;
const sh = (script: string) => ({ argv: ['sh', '-c', script] });
const stream = (start: AttachStart) => attach(server.address, sandbox, start);

async function seen(script: string): Promise<string> {
  return (await server.client.exec(sandbox, sh(script), { key: key() })).stdout;
}

/** Words of the command lines of all processes in the sandbox. */
const processes = () => seen('cat /proc/[0-9]*/cmdline | tr "\\0" " "');

/** Resolves with the value once it has stayed the same for a while. */
async function settled(read: () => Promise<number>): Promise<number> {
  for (let before = -1; ;) {
    const now = await read();
    if (now === before) return now;
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 700));
  }
}

beforeAll(async () => {
  await server.start();
  const request = { image: 'host', command: ['node', '-e', echo], leaseS: 60 };
  sandbox = (await server.client.createSandbox(request, { key: 'c' })).id;
  await until('the echo server is up', async () => (await seen('ls /workspace')).includes('up'));
}, 60_000);
afterAll(() => server.end(), 60_000);

describe('the attach stream to a command', () => {
  it('carries 20 MB of any bytes both ways, and the end of input leaves the output open', async () => {
    const sent = randomBytes(20 * 2 ** 20);
    const on = stream({ argv: ['cat'] });
    await on.started;

    for (let at = 0; at < sent.length; at += 100_000) {
      await on.send(sent.subarray(at, at + 100_000));
    }
    on.eof();

    const { stdout, stderr, said, code } = await on.closed;
    expect(stdout.equals(sent)).toBe(true);
    expect(stderr).toHaveLength(0);
    expect(said).toEqual([{ started: true }, { exit: { exitCode: 0 } }]);
    expect(code).toBe(1000);
  }, 60_000);

  it('keeps stderr apart, and gives the exit code, directory, variables and user', async () => {
    const script = 'wc -c; pwd; id -u; echo "$NAME" >&2; exit 3';
    const on = stream({ ...sh(script), cwd: '/tmp', env: { NAME: 'me' }, user: 1001 });
    await on.started;

    await on.send(Buffer.from('four'));
    on.eof();

    const { stdout, stderr, said } = await on.closed;
    expect(stdout.toString()).toBe('4\n/tmp\n1001\n');
    expect(stderr.toString()).toBe('me\n');
    expect(said[1]).toEqual({ exit: { exitCode: 3 } });
  });

  it('is as confined as any other command', async () => {
    const status = 'grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status; cat /proc/net/dev';

    const { stdout } = await stream(sh(status)).closed;

    expect(stdout.toString()).toMatch(/CapEff:\t0+\nNoNewPrivs:\t1\nSeccomp:\t2\n/);
    expect(stdout.toString().match(/^ *\w+:/gm)).toHaveLength(4);
  });

  it('says so when there is no such program', async () => {
    const { stderr, said } = await stream({ argv: ['no-such-program'] }).closed;

    expect(said[1]).toEqual({ exit: { exitCode: 127 } });
    expect(stderr.toString()).toContain('no-such-program');
  });

  it('carries many at once, each its own', async () => {
    const streams = Array.from({ length: 8 }, () => stream({ argv: ['cat'] }));
    const sent = streams.map(() => randomBytes(300_000));

    await Promise.all(
      streams.map(async (on, n) => {
        await on.started;
        await on.send(sent[n] ?? Buffer.alloc(0));
        on.eof();
      }),
    );

    const got = await Promise.all(streams.map((on) => on.closed));
    expect(got.map(({ stdout }, n) => stdout.equals(sent[n] ?? Buffer.alloc(0)))).toEqual(
      streams.map(() => true),
    );
  }, 60_000);

  it('kills the whole tree when the socket goes, in whatever way', async () => {
    for (const leave of [(ws: WebSocket) => ws.close(), (ws: WebSocket) => ws.terminate()]) {
      const length = `77.${(count += 1)}`;
      const on = stream(sh(`sleep ${length} & echo up; sleep ${length}1`));
      await on.started;
      await until('both sleep', async () => (await processes()).includes(`sleep ${length}1`));

      leave(on.ws);

      await until('neither sleeps', async () => !(await processes()).includes(`sleep ${length}`));
    }
  }, 60_000);

  it('holds back a command that writes faster than the client reads', async () => {
    const script =
      'i=0; while [ $i -lt 100 ]; do head -c 1048576 /dev/zero; i=$((i+1)); echo $i > /workspace/written; done';
    const on = stream(sh(script));
    await on.started;
    on.ws.pause();

    const held = await settled(async () => Number(await seen('cat /workspace/written || echo 0')));
    on.ws.resume();

    expect(held).toBeLessThan(100);
    expect((await on.closed).stdout).toHaveLength(100 * 2 ** 20);
  }, 60_000);

  it('holds back a client that sends faster than the command reads', async () => {
    const on = stream(sh('until [ -e /workspace/go ]; do sleep 0.1; done; wc -c'));
    await on.started;
    const piece = Buffer.alloc(2 ** 20);
    for (let n = 0; n < 100; n += 1) void on.send(piece);
    on.eof();

    const waiting = await settled(() => Promise.resolve(on.ws.bufferedAmount));
    await seen('touch /workspace/go');

    expect(waiting).toBeGreaterThan(0);
    expect((await on.closed).stdout.toString().trim()).toBe(String(100 * 2 ** 20));
  }, 60_000);
});

describe('the attach stream to a port', () => {
  it('carries 20 MB of any bytes both ways, and ends when both sides have', async () => {
    const sent = randomBytes(20 * 2 ** 20);
    const on = stream({ port: 7000 });
    await on.started;

    for (let at = 0; at < sent.length; at += 1_000_000) {
      await on.send(sent.subarray(at, at + 1_000_000));
    }
    on.eof();

    const { stdout, said, code } = await on.closed;
    expect(stdout.equals(sent)).toBe(true);
    expect(said).toEqual([{ started: true }, { eof: true }]);
    expect(code).toBe(1000);
  }, 60_000);

  it('lets the program answer after the end of what it was sent', async () => {
    const on = stream({ port: 7001 });
    await on.started;

    await on.send(Buffer.from('twelve bytes'));
    on.eof();

    expect((await on.closed).stdout.toString()).toBe('12');
  });

  it('says so when nobody listens', async () => {
    await expect(stream({ port: 7999 }).started).rejects.toThrow('unavailable');
  });
});

describe('the attach stream', () => {
  it('is refused without the key, with a wrong one, and to browsers', async () => {
    const authorization = 'Bearer dak_test';
    const refused: Record<string, string>[] = [
      {},
      { authorization: 'Bearer dak_other' },
      { authorization, origin: server.address },
    ];
    for (const headers of refused) {
      const on = attach(server.address, sandbox, { argv: ['true'] }, headers);
      await expect(on.started).rejects.toThrow('Unexpected server response: 401');
    }
  });

  it.each([
    ['no such sandbox', 'sb_none', { argv: ['true'] }, 'sandbox_not_found'],
    ['a start with neither', '', {}, 'invalid_request'],
    ['a start with both', '', { argv: ['true'], port: 1 }, 'invalid_request'],
  ])('answers %s with an error', async (_title, id, start, code) => {
    const on = attach(server.address, id || sandbox, start as AttachStart);

    await expect(on.started).rejects.toThrow(code);
    expect((await on.closed).code).toBe(1008);
  });

  it('renews the lease of its sandbox, and ends with it', async () => {
    const request = { image: 'host', command: ['node', '-e', echo], leaseS: 5 };
    const { id, leaseUntil } = await server.client.createSandbox(request, { key: key() });
    const exec = attach(server.address, id, { argv: ['sleep', '1000'] });
    await exec.started;
    const listening = async () => {
      const on = attach(server.address, id, { port: 7000 });
      return on.started.then(
        () => on,
        () => null,
      );
    };
    await until('it listens', async () => (await listening()) !== null);
    const port = await listening();
    const renewed = async () => (await server.client.getSandbox(id)).leaseUntil;
    // Longer than the whole lease, with nothing but streams on it.
    await until(
      'it is renewed',
      async () => Date.parse(await renewed()) > Date.parse(leaseUntil) + 6000,
    );

    await server.client.deleteSandbox(id);

    expect((await exec.closed).said[1]).toEqual({ exit: { exitCode: null } });
    expect((await port?.closed)?.said[1]).toEqual({ eof: true });
  }, 60_000);

  it.each([
    ['', {}],
    [', on a terminal too', { tty: { cols: 80, rows: 24 } }],
  ])(
    'ends with its server, and the next one leaves nothing of it running%s',
    async (_title, where) => {
      const on = stream({ argv: ['sleep', '4242'], ...where });
      await on.started;
      await until('it sleeps', async () => (await processes()).includes('sleep 4242'));

      await server.killAndStart();

      expect((await on.closed).code).toBe(1006);
      expect(await processes()).not.toContain('sleep 4242');
    },
    60_000,
  );
});

/** Resolves once a terminal has shown a text, with all that it has shown since it was asked. */
function shows(on: { ws: WebSocket }, wanted: string | RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const never = () => reject(new Error(`it never showed ${wanted.toString()}: ${text}`));
    const timer = setTimeout(never, 20_000);
    const look = (data: Buffer, isBinary: boolean) => {
      if (isBinary) text += data.subarray(1).toString();
      if (typeof wanted === 'string' ? !text.includes(wanted) : !wanted.test(text)) return;
      on.ws.off('message', look);
      clearTimeout(timer);
      resolve(text);
    };
    on.ws.on('message', look);
    on.ws.on('close', never);
  });
}

describe('the attach stream to a command on a terminal', () => {
  jest.setTimeout(30_000);
  const tty = { cols: 90, rows: 33 };
  const type = (on: { ws: WebSocket }, text: string) => on.ws.send(Buffer.from(text));
  const resize = (on: { ws: WebSocket }, cols: number, rows: number) =>
    on.ws.send(JSON.stringify({ resize: { cols, rows } }));

  it('has its size and all three streams on it, as the agent, and gives the exit code', async () => {
    const script =
      'stty size; tty; echo "$TERM"; id -u; for n in 0 1 2; do test -t $n && echo on $n; done; echo err >&2; exit 7';
    const on = stream({ ...sh(script), tty });

    const { stdout, stderr, said, code } = await on.closed;

    expect(stdout.toString()).toBe(
      '33 90\r\n/dev/pts/0\r\nxterm-256color\r\n1000\r\non 0\r\non 1\r\non 2\r\nerr\r\n',
    );
    expect(stderr).toHaveLength(0);
    expect(said).toEqual([{ started: true }, { exit: { exitCode: 7 } }]);
    expect(code).toBe(1000);
  });

  it('is as confined as any other command', async () => {
    const on = stream({ ...sh('grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status'), tty });

    const { stdout } = await on.closed;

    expect(stdout.toString()).toMatch(/CapEff:\t0+\r\nNoNewPrivs:\t1\r\nSeccomp:\t2/);
  });

  it('tells the program of each new size', async () => {
    const program =
      'import os, signal\n' +
      'signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n' +
      'print("up", flush=True)\n' +
      'while signal.sigwait([signal.SIGWINCH]): print(*os.get_terminal_size(), flush=True)';
    const on = stream({ argv: ['python3', '-c', program], tty });
    await shows(on, 'up');

    const seenThen = shows(on, '100 40\r\n');
    resize(on, 100, 40);
    await seenThen;
    const seenLater = shows(on, '1 1\r\n');
    resize(on, 1, 1);
    await seenLater;

    on.ws.close();
    await on.closed;
    await until('nothing of it is left', async () => !(await processes()).includes('WINCH'));
  });

  it('is a shell that one can work in: what is typed is echoed, ctrl-C ends what runs, exit ends it', async () => {
    const on = stream({ argv: ['bash', '--norc', '-i'], tty, env: { PS1: 'ready> ' } });
    await shows(on, 'ready> ');

    const echoed = shows(on, /echo \$\(\(6\*7\)\)[^]*42[^]*ready> /);
    type(on, 'echo $((6*7))\r');
    await echoed;
    const runs = shows(on, 'running');
    type(on, 'echo runn""ing; sleep 300\r');
    await runs;
    await until('it sleeps', async () => (await processes()).includes('sleep 300'));
    const interrupted = shows(on, /\^C[^]*ready> /);
    type(on, '\u0003');
    await interrupted;
    const code = shows(on, 'code 130');
    type(on, 'echo code $?\r');
    await code;
    type(on, 'exit 4\r');

    expect((await on.closed).said.at(-1)).toEqual({ exit: { exitCode: 4 } });
  });

  it('takes the end of input as ctrl-D', async () => {
    const on = stream({ argv: ['cat'], tty });
    await on.started;

    type(on, 'line\r');
    on.eof();

    const { stdout, said } = await on.closed;
    expect(stdout.toString()).toBe('line\r\nline\r\n');
    expect(said.at(-1)).toEqual({ exit: { exitCode: 0 } });
  });

  it('takes much more than a terminal holds, while as much comes back', async () => {
    const on = stream({ ...sh('stty raw -echo; echo up; head -c 500000'), tty });
    await shows(on, 'up');
    const sent = randomBytes(500_000);

    const closed = on.closed;
    for (let at = 0; at < sent.length; at += 50_000) await on.send(sent.subarray(at, at + 50_000));

    const { stdout } = await closed;
    expect(stdout.subarray(-sent.length).equals(sent)).toBe(true);
  });

  it('says of a program that is not there what another command says', async () => {
    const on = stream({ argv: ['no-such-program'], tty });

    expect((await on.closed).said.at(-1)).toEqual({ exit: { exitCode: 127 } });
  });

  it('ends with its client, and all that it started', async () => {
    const on = stream({ ...sh('sleep 4321 & setsid sleep 4322 & echo up; sleep 4323'), tty });
    await shows(on, 'up');

    on.ws.terminate();

    await until('none is left', async () => !/sleep 432\d/.test(await processes()));
  });

  it('has no size without one', async () => {
    const on = stream({ argv: ['cat'] });
    await on.started;

    resize(on, 80, 24);

    expect((await on.closed).said.at(-1)).toMatchObject({
      error: { code: 'invalid_request', message: 'resize: it has no terminal' },
    });
  });
});
