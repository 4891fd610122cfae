import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import type { CreateSandboxRequest, VerifyRequest } from '../../contracts/denv';
import { sandboxIdOf } from '../../denv/ids';
import { ServerProcess, until } from './server-process';

const FIXTURES = resolve(__dirname, 'fixtures');
const server = new ServerProcess();
let serial = 0;
const newKey = (name: string) => `${name}/${++serial}`;

const tarOf = (...names: string[]) =>
  execFileSync('tar', ['-cf', '-', '-C', FIXTURES, ...names]).toString('base64');

const http: CreateSandboxRequest = {
  image: 'host',
  files: [{ to: '/app', tarBase64: tarOf('counter.mjs') }],
  controller: { kind: 'mcp-http', command: ['node', '/app/counter.mjs', '--http'], port: 8765 },
};
const stdio: CreateSandboxRequest = {
  ...http,
  controller: { kind: 'mcp-stdio', command: ['node', '/app/counter.mjs'] },
};

async function create(request: CreateSandboxRequest = { image: 'host' }, name = 'create') {
  return server.client.createSandbox(request, { key: newKey(name) });
}

const sh = (id: string, script: string, key = newKey('exec'), timeoutS = 60) =>
  server.client.exec(id, { argv: ['sh', '-c', script], timeoutS }, { key });

const count = (id: string, args: Record<string, unknown> = {}, key = newKey('call')) =>
  server.client.call(
    id,
    { method: 'tools/call', params: { name: 'count', arguments: args }, snapshot: 'before' },
    { key },
  );

const effects = async (id: string) =>
  (await sh(id, 'cat /workspace/effects 2>/dev/null | wc -l')).stdout.trim();

const verifier = (script: string, collect: string[] = ['/workspace/out']): VerifyRequest => ({
  verifier: { image: 'host', command: ['sh', '-c', script], collect, timeoutS: 30 },
});

beforeAll(() => server.start(), 60_000);
afterAll(() => server.end(), 60_000);
jest.setTimeout(60_000);

describe('a sandbox over HTTP', () => {
  it('runs commands as uid 1000 and keeps their exit code and output', async () => {
    const { id } = await create();

    const reply = await sh(id, 'id -u; echo oops >&2; exit 3');

    expect(reply).toMatchObject({
      exitCode: 3,
      stdout: '1000\n',
      stderr: 'oops\n',
      timedOut: false,
    });
    await server.client.deleteSandbox(id);
    await expect(server.client.getSandbox(id)).rejects.toMatchObject({ code: 'sandbox_gone' });
  });

  it('returns the same outcome to the same key, and refuses another body under it', async () => {
    const { id } = await create();
    const key = newKey('exec');

    await sh(id, 'echo x >> /workspace/effects', key);
    await sh(id, 'echo x >> /workspace/effects', key);

    await expect(sh(id, 'echo y', key)).rejects.toMatchObject({ code: 'key_conflict' });
    expect(await effects(id)).toBe('1');
    await server.client.deleteSandbox(id);
  });

  it('kills the whole tree of a command at its timeout', async () => {
    const { id } = await create();

    const reply = await sh(id, 'setsid sleep 300 & sleep 300', newKey('exec'), 1);
    const left = await sh(id, 'ps -e -o args | grep -c "[s]leep 300"');

    expect(reply).toMatchObject({ exitCode: null, timedOut: true });
    expect(left.stdout).toBe('0\n');
    await server.client.deleteSandbox(id);
  });

  it('adopts what a lost create reply made: one sandbox exists', async () => {
    const key = newKey('create');
    const lost = new AbortController();
    const first = server.client.createSandbox({ image: 'host' }, { key, signal: lost.signal });
    setTimeout(() => lost.abort(), 30);
    await first.catch(() => undefined);

    const sandbox = await server.client.createSandbox({ image: 'host' }, { key });

    expect(sandbox.id).toBe(sandboxIdOf(key));
    const { sandboxes } = await server.client.listSandboxes();
    expect(sandboxes.filter((s) => s.id === sandbox.id)).toHaveLength(1);
    await server.client.deleteSandbox(sandbox.id);
  });

  it('refuses a create that comes after the delete of its id', async () => {
    const key = newKey('create');

    await server.client.deleteSandbox(sandboxIdOf(key));

    await expect(server.client.createSandbox({ image: 'host' }, { key })).rejects.toMatchObject({
      code: 'sandbox_gone',
    });
  });

  it('deletes a sandbox whose controller is not ready yet', async () => {
    const key = newKey('create');
    const creating = server.client.createSandbox(
      { image: 'host', controller: { kind: 'mcp-http', command: ['sleep', '60'], port: 9 } },
      { key },
    );
    const failed = expect(creating).rejects.toMatchObject({ code: 'sandbox_gone' });
    await until('it is being created', async () =>
      (await server.client.listSandboxes()).sandboxes.some((s) => s.id === sandboxIdOf(key)),
    );

    await server.client.deleteSandbox(sandboxIdOf(key));

    await failed;
  });

  it('says what a controller that never got ready printed last', async () => {
    const created = create({
      image: 'host',
      controller: {
        kind: 'mcp-http',
        command: ['sh', '-c', 'echo no config; exit 1'],
        port: 8765,
        timeoutS: 5,
      },
    });

    await expect(created).rejects.toThrow(/ended before it was ready; its last output: no config/);
    await expect(created).rejects.toMatchObject({ code: 'controller_failed' });
  });

  it.each([
    [{ image: 'host', gpu: 1 }, 'capability_missing', /gpu/],
    [{ image: 'host', caps: { diskMb: 10 } }, 'capability_missing', /caps\.diskMb/],
    [{ image: 'host', target: 'moon' }, 'capability_missing', /no target moon/],
    [{ image: 'debian:12' }, 'invalid_request', /"debian:12" is not supported/],
    [{ image: 'dir:/root' }, 'image_not_found', /DENV_IMAGE_DIRS/],
    [{}, 'invalid_request', /exactly one of `image`, `version` and `address`/],
    [{ version: 'ver_none' }, 'version_not_found', /ver_none/],
    [{ image: 'host', imagge: 1 }, 'invalid_request', /imagge/],
  ])('refuses %j by name', async (request, code, message) => {
    const refused = create(request as CreateSandboxRequest);

    await expect(refused).rejects.toMatchObject({ code });
    await expect(refused).rejects.toThrow(message);
  });

  it('answers 401 in plain words to a wrong key or none', async () => {
    const wrong = await fetch(`${server.address}/v1/envs`, {
      headers: { authorization: 'Bearer x' },
    });
    const none = await fetch(`${server.address}/v1/envs`);

    expect([wrong.status, none.status]).toEqual([401, 401]);
    expect(await wrong.json()).toMatchObject({ error: { code: 'unauthorized' } });
  });

  it('keeps work going for a caller that lets go, and answers 202 meanwhile', async () => {
    const { id } = await create();
    const key = newKey('exec');

    const response = await fetch(`${server.address}/v1/envs/${id}/exec`, {
      method: 'POST',
      headers: { authorization: 'Bearer dak_test', 'idempotency-key': key },
      body: JSON.stringify({ argv: ['sh', '-c', 'sleep 1; echo late'], wait: 0 }),
    });

    expect(response.status).toBe(202);
    expect(await server.client.operation(key, { waitS: 20 })).toMatchObject({
      state: 'done',
      status: 200,
      body: { stdout: 'late\n' },
    });
    await server.client.deleteSandbox(id);
  });

  it('cancels a running command by its key', async () => {
    const { id } = await create();
    const key = newKey('exec');
    const running = sh(id, 'sleep 300', key);
    await until('it runs', async () => (await sh(id, 'pgrep -c sleep')).exitCode === 0);

    await server.client.cancelOperation(key);

    expect(await running).toMatchObject({ exitCode: null, timedOut: false });
    await server.client.deleteSandbox(id);
  });

  it('deletes a sandbox without an owner when its lease ends, and none that has one or is at work', async () => {
    const owned = await create({ image: 'host', leaseS: 5, labels: { owner: 'me' } });
    const free = await create({ image: 'host', leaseS: 5 });
    const busy = await create({ image: 'host', leaseS: 5 });
    const working = sh(busy.id, 'sleep 11; echo done');

    await until('the lease ended', async () => {
      const { sandboxes } = await server.client.listSandboxes();
      return !sandboxes.some((s) => s.id === free.id);
    });

    expect((await server.client.getSandbox(owned.id)).state).toBe('running');
    expect((await working).stdout).toBe('done\n');
    await server.client.deleteSandbox(owned.id);
    await server.client.deleteSandbox(busy.id);
  });
});

describe('files', () => {
  it('are written and read inside the sandbox, so a link leads nowhere on the host', async () => {
    const { id } = await create();
    await sh(id, 'ln -s /etc/shadow /workspace/link; ln -s /workspace/real /workspace/inner');

    const outside = server.client.writeFile(id, '/workspace/link', Buffer.from('x'), {
      key: newKey('write'),
    });
    await expect(outside).rejects.toMatchObject({ code: 'invalid_request' });
    await server.client.writeFile(id, '/workspace/inner', Buffer.from([0, 255, 10]), {
      key: newKey('write'),
    });

    expect(await server.client.readFile(id, '/workspace/real')).toEqual(Buffer.from([0, 255, 10]));
    await expect(server.client.readFile(id, '/workspace/none')).rejects.toThrow(/No such file/);
    await server.client.deleteSandbox(id);
  });

  it('move as trees', async () => {
    const [from, to] = [await create(), await create()];
    await sh(from.id, 'mkdir -p /workspace/t/d; echo deep > /workspace/t/d/f');

    const tree = await server.client.readTree(from.id, '/workspace/t');
    await server.client.writeTree(to.id, '/workspace/copy', tree, { key: newKey('write') });

    expect((await sh(to.id, 'cat /workspace/copy/d/f')).stdout).toBe('deep\n');
    await server.client.deleteSandbox(from.id);
    await server.client.deleteSandbox(to.id);
  });
});

describe('fork', () => {
  it('gives each child what was written before, a new id, and nothing of what comes later', async () => {
    const parent = await create(stdio);
    await count(parent.id);
    await sh(
      parent.id,
      'head -c 3000000 /dev/urandom > /workspace/big; sha256sum /workspace/big > /workspace/sum',
    );

    const reply = await server.client.fork(parent.id, { count: 2 }, { key: newKey('fork') });
    await sh(parent.id, 'echo later > /workspace/later');

    const ids = reply.children.map((c) => ('sandbox' in c ? c.sandbox.id : c.error.message));
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) {
      const child = await sh(id, 'sha256sum -c /workspace/sum && test ! -e /workspace/later');
      expect(child.exitCode).toBe(0);
      expect((await count(id)).result).toMatchObject({ content: [{ text: 'count 1' }] });
      expect(await effects(id)).toBe('2');
      await server.client.deleteSandbox(id);
    }
    await server.client.deleteSandbox(parent.id);
  });

  it('goes on from a kept version after its sandbox is deleted', async () => {
    const { id } = await create();
    await sh(id, 'echo kept > /workspace/f');
    const version = await server.client.snapshot(id, {}, { key: newKey('snapshot') });
    await server.client.deleteSandbox(id);

    const reply = await server.client.forkVersion(version.id, {}, { key: newKey('fork') });

    const child = reply.children[0];
    if (!child || !('sandbox' in child)) throw new Error('no child');
    expect((await sh(child.sandbox.id, 'cat /workspace/f')).stdout).toBe('kept\n');
    expect(child.sandbox.forkedFrom).toEqual({ sandbox: id, version: version.id });
    await server.client.deleteSandbox(child.sandbox.id);
  });
});

describe('verify', () => {
  it('judges collected files as uid 2000 without network, and leaves the sandbox stopped', async () => {
    const { id } = await create();
    await sh(id, 'echo solved > /workspace/out');
    const script = `
      test "$(id -u)" = 2000 && test "$(ls /sys/class/net)" = lo || exit 9
      test "$(cat /env/workspace/out)" = solved || exit 8
      touch /submission/x /env/x 2>/dev/null && exit 7
      grep -q solved /submission/workspace/out && echo '{"reward": 1, "speed": 0.5}' > /verdict/reward.json`;

    const reply = await server.client.verify(id, verifier(script), { key: newKey('verify') });

    expect(reply).toMatchObject({ verdict: 'reward', reward: 1, rewards: { speed: 0.5 } });
    expect(reply.evidence).toMatchObject({
      principal: 'verifier',
      uid: 2000,
      exitCode: 0,
      missing: [],
    });
    expect(reply.evidence.collected).toMatchObject([{ path: '/workspace/out', bytes: 7 }]);
    expect(await server.client.getSandbox(id)).toMatchObject({
      state: 'stopped',
      stopped: { what: 'verify_stop', by: 'outside' },
    });
    await expect(sh(id, 'true')).rejects.toMatchObject({ code: 'sandbox_stopped' });
    const record = await server.client.record(id);
    expect(record.entries.map((e) => e.event)).toEqual([
      'created',
      'stopped',
      'snapshot',
      'verified',
    ]);
    await server.client.deleteSandbox(id);
    expect((await server.client.record(id)).entries.at(-2)).toMatchObject({
      event: 'verified',
      data: { reward: 1 },
    });
  });

  it('lets a sandbox go on that it was not told to stop', async () => {
    const { id } = await create();
    const request = { ...verifier('echo 0.5 > /verdict/reward.txt', []), stop: false };

    const reply = await server.client.verify(id, request, { key: newKey('verify') });

    expect(reply.reward).toBe(0.5);
    expect((await sh(id, 'echo alive')).stdout).toBe('alive\n');
    await server.client.deleteSandbox(id);
  });

  it.each([
    ['a symbolic link', 'ln -s /etc/passwd /workspace/out', 'a symbolic link'],
    [
      'a hard link',
      'echo x > /workspace/a; ln /workspace/a /workspace/out',
      'a hard link (2 names)',
    ],
    ['a fifo', 'mkfifo /workspace/out', 'a fifo'],
    ['a device folder', 'mkdir /workspace/out; mkfifo /workspace/out/f', 'a fifo'],
  ])('scores %s 0 and says why', async (_, script, why) => {
    const { id } = await create();
    await sh(id, script);

    const reply = await server.client.verify(id, verifier('echo 1 > /verdict/reward.txt'), {
      key: newKey('verify'),
    });

    expect(reply).toMatchObject({ verdict: 'refused', reward: 0 });
    expect(reply.evidence.refused?.why).toBe(why);
    await server.client.deleteSandbox(id);
  });

  it.each([
    ['crashes', 'kill -9 $$', /neither/, 137],
    ['writes no number', 'echo NaN > /verdict/reward.txt', /not a finite number/, 0],
    ['writes a link', 'ln -s /submission/workspace/out /verdict/reward.txt', /a symbolic link/, 0],
  ])('has no verdict from a verifier that %s', async (_, script, why, exitCode) => {
    const { id } = await create();
    await sh(id, 'echo 1 > /workspace/out');

    const reply = await server.client.verify(id, verifier(script), { key: newKey('verify') });

    expect(reply).toMatchObject({ verdict: 'none', reward: null });
    expect(reply.evidence.noVerdict).toMatch(why);
    expect(reply.evidence.exitCode).toBe(exitCode);
    await server.client.deleteSandbox(id);
  });

  it('has no verdict from a verifier that does not end, and judges the same version again', async () => {
    const { id } = await create();
    const request = verifier('sleep 300', []);
    request.verifier.timeoutS = 1;
    const first = await server.client.verify(id, request, { key: newKey('verify') });

    const second = await server.client.verifyVersion(
      first.version,
      verifier('echo 1 > /verdict/reward.txt', []),
      { key: newKey('verify') },
    );

    expect(first).toMatchObject({ verdict: 'none', evidence: { timedOut: true } });
    expect(second).toMatchObject({ verdict: 'reward', reward: 1, version: first.version });
    await server.client.deleteSandbox(id);
  });

  it('takes nothing from verdict files that the agent wrote, and lists what it did not find', async () => {
    const { id } = await create();
    await sh(
      id,
      'mkdir -p /workspace/verdict; echo 1 > /workspace/verdict/reward.txt; ls -la / /verdict',
    );

    const reply = await server.client.verify(
      id,
      verifier('true', ['/workspace/verdict', '/none']),
      {
        key: newKey('verify'),
      },
    );

    expect(reply).toMatchObject({ verdict: 'none', reward: null });
    expect(reply.evidence.missing).toEqual(['/none']);
    await server.client.deleteSandbox(id);
  });

  it('judges the untouched start version of an image', async () => {
    const { id, version } = await create();
    await sh(id, 'echo 1 > /workspace/out');

    const reply = await server.client.verifyVersion(
      version,
      verifier(
        'test -e /env/workspace/out && echo 1 > /verdict/reward.txt || echo 0 > /verdict/reward.txt',
      ),
      { key: newKey('verify') },
    );

    expect(reply).toMatchObject({ verdict: 'reward', reward: 0, version });
    await server.client.deleteSandbox(id);
  });
});

describe('a controller', () => {
  it.each([
    ['HTTP', http],
    ['stdio', stdio],
  ])('over %s answers calls, large ones too, and its end stops the sandbox', async (_, request) => {
    const { id } = await create(request);

    const listed = await server.client.call(id, { method: 'tools/list' }, { key: newKey('call') });
    const big = await count(id, { big: 3_000_000 });
    const timedOut = await server.client.call(
      id,
      {
        method: 'tools/call',
        params: { name: 'count', arguments: { waitMs: 5000 } },
        timeoutS: 0.3,
      },
      { key: newKey('call') },
    );
    const died = count(id, { die: true });

    expect(listed.result).toMatchObject({ tools: [{ name: 'count' }] });
    expect(JSON.stringify(big.result)).toHaveLength(
      3_000_000 + '{"content":[{"type":"text","text":""}]}'.length,
    );
    expect(timedOut).toMatchObject({ timedOut: true });
    await expect(died).rejects.toMatchObject({ code: 'sandbox_stopped' });
    expect((await server.client.getSandbox(id)).stopped).toMatchObject({
      by: 'inside',
      what: 'controller_ended',
    });
    const judged = await server.client.verify(
      id,
      verifier('wc -l < /submission/workspace/effects > /verdict/reward.txt', [
        '/workspace/effects',
      ]),
      { key: newKey('verify') },
    );
    expect(judged.reward).toBe(3);
    await server.client.deleteSandbox(id);
  });
});

describe('a server killed with SIGKILL', () => {
  it('finishes the exec that was running, once', async () => {
    const { id } = await create();
    const key = newKey('exec');
    const script = 'echo x >> /workspace/effects; sleep 2; echo done; exit 5';
    sh(id, script, key).catch(() => undefined);
    await until('the effect is there', async () => (await effects(id)) === '1');

    await server.killAndStart();

    expect(await sh(id, script, key)).toMatchObject({ exitCode: 5, stdout: 'done\n' });
    expect(await effects(id)).toBe('1');
    await server.client.deleteSandbox(id);
  });

  it('still ends an exec at its timeout', async () => {
    const { id } = await create();
    const key = newKey('exec');
    sh(id, 'touch /workspace/on; sleep 300', key, 4).catch(() => undefined);
    await until('it runs', async () => (await sh(id, 'test -e /workspace/on')).exitCode === 0);

    await server.killAndStart();

    expect(await sh(id, 'touch /workspace/on; sleep 300', key, 4)).toMatchObject({
      exitCode: null,
      timedOut: true,
    });
    await server.client.deleteSandbox(id);
  });

  it('returns the answer of a stdio call that was out, and keeps the controller and its memory', async () => {
    const { id } = await create(stdio);
    const key = newKey('call');
    await count(id);
    count(id, { waitMs: 2500 }, key).catch(() => undefined);
    await until('the effect is there', async () => (await effects(id)) === '2');

    await server.killAndStart();

    expect((await count(id, { waitMs: 2500 }, key)).result).toMatchObject({
      content: [{ text: 'count 2' }],
    });
    expect((await count(id)).result).toMatchObject({ content: [{ text: 'count 3' }] });
    expect(await effects(id)).toBe('3');
    await server.client.deleteSandbox(id);
  });

  it('calls the outcome of an HTTP call that was out unknown, with the version before it', async () => {
    const { id } = await create(http);
    const key = newKey('call');
    await count(id);
    count(id, { waitMs: 3000 }, key).catch(() => undefined);
    await until('the effect is there', async () => (await effects(id)) === '2');

    await server.killAndStart();

    const error: unknown = await count(id, { waitMs: 3000 }, key).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: 'outcome_unknown' });
    const version = (error as { details: { version: string } }).details.version;
    expect((await count(id)).result).toMatchObject({ content: [{ text: 'count 3' }] });
    const fork = await server.client.forkVersion(version, {}, { key: newKey('fork') });
    const child = fork.children[0];
    if (!child || !('sandbox' in child)) throw new Error('no child');
    expect(await effects(child.sandbox.id)).toBe('1');
    await server.client.deleteSandbox(child.sandbox.id);
    await server.client.deleteSandbox(id);
  });

  it('redoes a create under its key: one sandbox, nothing half made', async () => {
    const key = newKey('create');
    const request: CreateSandboxRequest = {
      ...http,
      controller: {
        kind: 'mcp-http',
        command: ['sh', '-c', 'sleep 1; exec node /app/counter.mjs --http'],
        port: 8765,
      },
    };
    server.client.createSandbox(request, { key }).catch(() => undefined);
    await until('it is being created', async () =>
      (await server.client.listSandboxes()).sandboxes.some((s) => s.id === sandboxIdOf(key)),
    );

    await server.killAndStart();
    const sandbox = await server.client.createSandbox(request, { key });

    expect((await count(sandbox.id)).result).toMatchObject({ content: [{ text: 'count 1' }] });
    await server.client.deleteSandbox(sandbox.id);
  });

  it('redoes a verify under its key: one verdict in the record', async () => {
    const { id } = await create();
    await sh(id, 'echo 1 > /workspace/out');
    const key = newKey('verify');
    const request = verifier('sleep 1; cp /submission/workspace/out /verdict/reward.txt');
    server.client.verify(id, request, { key }).catch(() => undefined);
    await until(
      'it is stopped',
      async () => (await server.client.getSandbox(id)).state === 'stopped',
    );

    await server.killAndStart();
    const reply = await server.client.verify(id, request, { key });

    expect(reply).toMatchObject({ verdict: 'reward', reward: 1 });
    const { entries } = await server.client.record(id);
    expect(entries.filter((e) => e.event === 'verified')).toHaveLength(1);
    await server.client.deleteSandbox(id);
  });

  it('redoes a fork under its key: every child once', async () => {
    const parent = await create(stdio);
    await count(parent.id);
    const key = newKey('fork');
    server.client.fork(parent.id, { count: 3 }, { key }).catch(() => undefined);
    await until('a child is being made', async () =>
      (await server.client.listSandboxes()).sandboxes.some(
        (s) => s.forkedFrom?.sandbox === parent.id,
      ),
    );

    await server.killAndStart();
    const reply = await server.client.fork(parent.id, { count: 3 }, { key });

    const ids = reply.children.map((c) => ('sandbox' in c ? c.sandbox.id : c.error.message));
    const { sandboxes } = await server.client.listSandboxes();
    expect(
      sandboxes
        .filter((s) => s.forkedFrom)
        .map((s) => s.id)
        .sort(),
    ).toEqual([...ids].sort());
    for (const id of ids) {
      expect(await effects(id)).toBe('1');
      await server.client.deleteSandbox(id);
    }
    await server.client.deleteSandbox(parent.id);
  });

  it('leaves sandboxes stopped by a shutdown to be snapshotted, verified and forked', async () => {
    const { id } = await create(stdio);
    await count(id);

    await server.shutdown();
    await server.start();

    expect(await server.client.getSandbox(id)).toMatchObject({
      state: 'stopped',
      stopped: { by: 'outside', what: 'stop_request' },
    });
    const judged = await server.client.verify(
      id,
      verifier('wc -l < /submission/workspace/effects > /verdict/reward.txt', [
        '/workspace/effects',
      ]),
      { key: newKey('verify') },
    );
    expect(judged.reward).toBe(1);
    const fork = await server.client.fork(id, {}, { key: newKey('fork') });
    const child = fork.children[0];
    if (!child || !('sandbox' in child)) throw new Error('no child');
    expect((await count(child.sandbox.id)).result).toMatchObject({
      content: [{ text: 'count 1' }],
    });
    expect(await effects(child.sandbox.id)).toBe('2');
    await server.client.deleteSandbox(child.sandbox.id);
    await server.client.deleteSandbox(id);
  });

  it('leaves nothing: no sandbox, mount, cgroup or process, after a shutdown', async () => {
    const { id } = await create(stdio);
    await server.shutdown();

    const mounts = execFileSync('findmnt', ['-rno', 'TARGET'], { encoding: 'utf8' });
    const loops = execFileSync('losetup', ['-a'], { encoding: 'utf8' });
    const processes = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });

    expect(mounts).not.toContain(server.dataDir);
    expect(loops).not.toContain(server.dataDir);
    expect(processes).not.toContain(server.dataDir);
    await server.start();
    for (const sandbox of (await server.client.listSandboxes()).sandboxes) {
      await server.client.deleteSandbox(sandbox.id);
    }
    await expect(server.client.getSandbox(id)).rejects.toMatchObject({ code: 'sandbox_gone' });
  });
});
