import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import type { CallRequest, ExecRequest, VerifyRequest } from '../../contracts/denv';
import type { DenvClient } from '../../denv/client';
import { forkChildKey, sandboxIdOf, versionIdOf } from '../../denv/ids';

/** A denv server under test, with what differs in how each is asked to do the same. */
export interface DenvSubject {
  client: DenvClient;
  /** A command that appends a line to what is kept in its sandbox, and prints all of it. */
  append(line: string): ExecRequest;
  /** The same as a call of the controller. */
  appendByCall(line: string): CallRequest;
  /** A command that ends only by being killed. */
  hang(): ExecRequest;
  /** Where a file of that name lies: in a running sandbox, and in a version. */
  pathIn(sandboxId: string, name: string): string;
  pathInVersion(name: string): string;
  end(): Promise<void>;
}

const DAY_MS = 86_400_000;
const labels = { owner: 'me', rolloutId: 'r1' };
const verifier: VerifyRequest['verifier'] = { image: 'host', command: ['judge'] };

/** What activities, the worker and the command line may count on from a denv server. */
export function denvSuite(
  name: string,
  start: () => Promise<DenvSubject>,
  { skipsVerify = null }: { skipsVerify?: string | null } = {},
): void {
  describe(name, () => {
    let subject: DenvSubject;
    let client: DenvClient;
    beforeEach(async () => {
      subject = await start();
      client = subject.client;
    });
    afterEach(() => subject.end());

    const create = (key = 'c') => client.createSandbox({ image: 'host', labels }, { key });
    const append = async (id: string, line: string, key: string) =>
      (await client.exec(id, subject.append(line), { key })).stdout.trim().split('\n');
    const lines = async (id: string) => (await append(id, 'look', `look ${id}`)).slice(0, -1);
    const appendByCall = async (id: string, line: string, key: string) => {
      const { result } = await client.call(id, subject.appendByCall(line), { key });
      const { content } = result as { content: { text: string }[] }; // a tool's result
      // A shell tells more about its command, after an empty line.
      return content[0]?.text.split('\n\n')[0]?.split('\n');
    };
    const write = (id: string, file: string, text: string, key: string) =>
      client.writeFile(id, subject.pathIn(id, file), Buffer.from(text), { key });
    const eventsOf = async (id: string) => (await client.record(id)).entries.map((e) => e.event);
    const code = (wanted: string) => expect.objectContaining({ code: wanted });
    const fails = (work: Promise<unknown>, wanted: string) =>
      expect(work).rejects.toEqual(code(wanted));

    describe('a sandbox', () => {
      it('has the id of its create key, its labels and a lease', async () => {
        const before = Date.now();

        const sandbox = await client.createSandbox(
          { image: 'host', labels, leaseS: 60 },
          { key: 'c' },
        );

        expect(sandbox).toMatchObject({
          id: sandboxIdOf('c'),
          state: 'running',
          labels,
          forkedFrom: null,
          controller: { kind: 'shell', ready: true },
          stopped: null,
        });
        const leaseMs = Date.parse(sandbox.leaseUntil) - before;
        expect(leaseMs).toBeGreaterThanOrEqual(60_000);
        expect(leaseMs).toBeLessThan(120_000);
        expect(await client.getSandbox(sandbox.id)).toEqual(sandbox);
      });

      it('is one for one key, whatever its labels and lease', async () => {
        const first = await create();
        const again = await client.createSandbox({ image: 'host', leaseS: 77 }, { key: 'c' });

        expect(again).toEqual(first);
        expect((await client.listSandboxes()).sandboxes).toHaveLength(1);
      });

      it('is found by owner and rollout', async () => {
        const one = await create('a');
        const two = await client.createSandbox(
          { image: 'host', labels: { owner: 'me', rolloutId: 'r2' } },
          { key: 'b' },
        );
        await client.createSandbox({ image: 'host', labels: { owner: 'you' } }, { key: 'd' });
        const found = async (filter: Parameters<DenvClient['listSandboxes']>[0]) =>
          (await client.listSandboxes(filter)).sandboxes.map(({ id }) => id);

        expect(await found({ owner: 'me' })).toEqual([one.id, two.id]);
        expect(await found({ owner: 'me', rolloutId: 'r2' })).toEqual([two.id]);
        expect(await found({ owner: 'nobody' })).toEqual([]);
      });

      it.each([
        ['a field that is not in the contract', { image: 'host', memory: 1 }],
        ['no image at all', {}],
        ['an image and a version', { image: 'host', version: 'ver_1' }],
      ])('is refused with %s', async (_what, request) => {
        await fails(client.createSandbox(request, { key: 'c' }), 'invalid_request');
        await create();
      });

      it('gets another end of its lease, never an earlier one', async () => {
        const { id, leaseUntil } = await create();

        const longer = await client.renew(id, { leaseS: 3600 });
        const same = await client.renew(id, { leaseS: 5 });

        expect(Date.parse(longer.leaseUntil)).toBeGreaterThan(Date.parse(leaseUntil));
        expect(same.leaseUntil).toBe(longer.leaseUntil);
      });

      it('wants the trees that its create names, and takes them once they are sent', async () => {
        const archive = pack();
        archive.entry({ name: 'main.txt' }, 'hello');
        archive.finalize();
        const tar = await buffer(archive);
        const sha256 = createHash('sha256').update(tar).digest('hex');
        const request = { image: 'host', files: [{ to: '/app', sha256 }] };

        await expect(client.createSandbox(request, { key: 'c' })).rejects.toMatchObject({
          code: 'files_missing',
          details: { sha256: [sha256] },
        });
        await fails(
          client.uploadTree(sha256, Readable.from([Buffer.from('x')])),
          'invalid_request',
        );
        await client.uploadTree(sha256, Readable.from([tar]));
        const sandbox = await client.createSandbox(request, { key: 'c' });
        const whole = { to: '/app', tarBase64: tar.toString('base64') };

        expect(await client.createSandbox({ image: 'host', files: [whole] }, { key: 'c' })).toEqual(
          sandbox,
        );
      });

      it('leaves a tombstone when it is deleted', async () => {
        const { id } = await create();

        await client.deleteSandbox(id);
        await client.deleteSandbox(id);

        await fails(client.getSandbox(id), 'sandbox_gone');
        await fails(client.renew(id, { leaseS: 60 }), 'sandbox_gone');
        await fails(client.exec(id, subject.append('a'), { key: 'e' }), 'sandbox_gone');
        await fails(client.call(id, subject.appendByCall('a'), { key: 'k' }), 'sandbox_gone');
        await fails(client.snapshot(id, {}, { key: 's' }), 'sandbox_gone');
        await fails(client.fork(id, {}, { key: 'f' }), 'sandbox_gone');
        expect((await client.listSandboxes()).sandboxes).toEqual([]);
      });

      it('is never made once its id was deleted', async () => {
        await client.deleteSandbox(sandboxIdOf('c'));

        await fails(create(), 'sandbox_gone');
        await fails(client.getSandbox(sandboxIdOf('c')), 'sandbox_gone');
      });

      it('that nobody made is not found', async () => {
        await fails(client.getSandbox('sb_none'), 'sandbox_not_found');
        await fails(client.exec('sb_none', subject.append('a'), { key: 'e' }), 'sandbox_not_found');
        await fails(client.snapshot('sb_none', {}, { key: 's' }), 'sandbox_not_found');
        await fails(client.fork('sb_none', {}, { key: 'f' }), 'sandbox_not_found');
        await fails(client.renew('sb_none', { leaseS: 60 }), 'sandbox_not_found');
        await fails(client.record('sb_none'), 'sandbox_not_found');
      });

      it('has a record of what became of it, that outlives it', async () => {
        const { id } = await create();
        await client.snapshot(id, {}, { key: 's' });
        await client.deleteSandbox(id);

        const { sandbox, entries } = await client.record(id);

        expect(sandbox).toBe(id);
        expect(entries.map((entry) => entry.event)).toEqual(['created', 'snapshot', 'deleted']);
        expect(entries[1]?.data).toMatchObject({ version: versionIdOf('s') });
      });
    });

    describe('a command or call', () => {
      it('has its effect once for one key', async () => {
        const { id } = await create();

        const first = await append(id, 'a', 'e1');
        await append(id, 'b', 'e2');
        const again = await append(id, 'a', 'e1');
        const called = await appendByCall(id, 'c', 'k1');
        const calledAgain = await appendByCall(id, 'c', 'k1');

        expect([first, again]).toEqual([['a'], ['a']]);
        expect([called, calledAgain]).toEqual([
          ['a', 'b', 'c'],
          ['a', 'b', 'c'],
        ]);
        expect(await lines(id)).toEqual(['a', 'b', 'c']);
      });

      it('has its effect once for two callers at the same time', async () => {
        const { id } = await create();

        await Promise.all([append(id, 'a', 'e'), append(id, 'a', 'e')]);

        expect(await lines(id)).toEqual(['a']);
      });

      it('conflicts with any other request of the same key', async () => {
        const { id } = await create('c');
        const other = await create('d');
        await append(id, 'a', 'e');

        await fails(append(id, 'b', 'e'), 'key_conflict');
        await fails(append(other.id, 'a', 'e'), 'key_conflict');
        await fails(appendByCall(id, 'a', 'e'), 'key_conflict');
        await fails(client.snapshot(id, {}, { key: 'e' }), 'key_conflict');
        await fails(client.fork(id, {}, { key: 'e' }), 'key_conflict');
        await fails(write(id, 'f', 'text', 'e'), 'key_conflict');
        await fails(client.createSandbox({ image: 'host' }, { key: 'e' }), 'key_conflict');
        await fails(
          client.createSandbox({ image: 'host', workdir: '/' }, { key: 'c' }),
          'key_conflict',
        );
        expect(await lines(id)).toEqual(['a']);
      });

      it('is the same request when it spells out what is meant anyway', async () => {
        const { id } = await create();
        const request = subject.append('a');

        const first = await client.exec(id, request, { key: 'e' });
        const again = await client.exec(id, { ...request, timeoutS: 600 }, { key: 'e' });

        expect(again).toEqual(first);
      });

      it('that was refused before it had an effect may use its key again', async () => {
        const id = sandboxIdOf('c');

        await fails(append(id, 'a', 'e'), 'sandbox_not_found');
        await fails(client.operation('e'), 'operation_not_found');
        await create();

        expect(await append(id, 'a', 'e')).toEqual(['a']);
      });

      it('still has its outcome when its sandbox is gone', async () => {
        const { id } = await create();
        await append(id, 'a', 'e');
        await client.deleteSandbox(id);

        expect(await append(id, 'a', 'e')).toEqual(['a']);
      });

      it('is an operation that is found by its key', async () => {
        const { id } = await create();
        await append(id, 'a', 'e');

        expect(await client.operation('e')).toMatchObject({
          key: 'e',
          kind: 'exec',
          state: 'done',
          status: 200,
          body: { exitCode: 0 },
        });
        await fails(client.operation('none'), 'operation_not_found');
      });

      it('goes on when its caller stops waiting, and is waited for again', async () => {
        const { id } = await create();
        const caller = new AbortController();
        const run = client.exec(id, subject.hang(), { key: 'e', signal: caller.signal });
        const left = expect(run).rejects.toThrow('let go');
        await running(client, 'e');

        caller.abort(new Error('let go'));
        await left;
        const again = client.exec(id, subject.hang(), { key: 'e' });
        expect(await client.operation('e')).toEqual({ key: 'e', kind: 'exec', state: 'running' });
        await client.cancelOperation('e');

        expect(await again).toMatchObject({ exitCode: null, timedOut: false });
      });

      it('is killed with its sandbox', async () => {
        const { id } = await create();
        const run = client.exec(id, subject.hang(), { key: 'e' }).catch((error: unknown) => error);
        await running(client, 'e');

        await client.deleteSandbox(id);

        await run;
        expect(await client.operation('e', { waitS: 5 })).toMatchObject({ state: 'done' });
      });

      it('lists the tools of the controller', async () => {
        const { id } = await create();

        const { result, timedOut } = await client.call(id, { method: 'tools/list' }, { key: 'k' });

        expect(timedOut).toBe(false);
        expect(result).toEqual({ tools: expect.any(Array) });
      });

      it('is refused when the contract does not know it', async () => {
        const { id } = await create();

        await fails(client.exec(id, { argv: [] }, { key: 'e' }), 'invalid_request');
        await fails(
          client.exec(id, { ...subject.append('a'), timeoutS: -1 }, { key: 'e' }),
          'invalid_request',
        );
      });
    });

    describe('a snapshot in the same key', () => {
      it('is taken before or after the call, and named by the key', async () => {
        const { id } = await create();
        await append(id, 'a', 'e1');

        const before = await client.exec(
          id,
          { ...subject.append('b'), snapshot: 'before' },
          { key: 'e2' },
        );
        const after = await client.call(
          id,
          { ...subject.appendByCall('c'), snapshot: 'after' },
          { key: 'k' },
        );

        expect(before).toMatchObject({
          version: versionIdOf('e2'),
          snapshotS: expect.any(Number),
          flushS: expect.any(Number),
        });
        expect(before.unchanged).toBeUndefined();
        expect(await lines((await forkOf(versionIdOf('e2'))).id)).toEqual(['a']);
        expect(await lines((await forkOf(after.version ?? '')).id)).toEqual(['a', 'b', 'c']);
      });

      it('is the last version while nothing has changed', async () => {
        const { id, version } = await create();
        const changed = async (line: string, key: string) =>
          client.call(id, { ...subject.appendByCall(line), snapshot: 'changed' }, { key });

        const first = await changed('a', 'k1');
        const second = await changed('b', 'k2');
        const kept = await client.snapshot(id, {}, { key: 's' });
        const third = await changed('c', 'k3');

        expect(first).toMatchObject({ version, unchanged: true });
        expect(second).toMatchObject({ version: versionIdOf('k2'), unchanged: false });
        expect(third).toMatchObject({ version: kept.id, unchanged: true });
      });
    });

    describe('a version', () => {
      it('has the labels of its sandbox and its own, and is taken once for one key', async () => {
        const { id } = await create();
        await append(id, 'a', 'e1');
        const request = { labels: { step: '3' }, retentionS: 3600 };

        const version = await client.snapshot(id, request, { key: 's' });
        await append(id, 'b', 'e2');
        const again = await client.snapshot(id, request, { key: 's' });

        expect(version).toMatchObject({
          id: versionIdOf('s'),
          sandbox: id,
          labels: { ...labels, step: '3' },
          bytes: null,
          usedBy: [],
        });
        expect(Date.parse(version.retainUntil) - Date.parse(version.createdAt)).toBe(3_600_000);
        expect(again).toEqual(version);
        expect(await lines((await forkOf(version.id)).id)).toEqual(['a']);
      });

      it('is found by labels and sandbox, oldest first, and no start version is', async () => {
        const one = await create('a');
        const two = await client.createSandbox(
          { image: 'host', labels: { owner: 'me', rolloutId: 'r2' } },
          { key: 'b' },
        );
        const taken: string[] = [];
        for (const [n, { id }] of [one, two, one].entries()) {
          await append(id, `${n}`, `e${n}`);
          taken.push((await client.snapshot(id, {}, { key: `s${n}` })).id);
          await nextMs();
        }
        const found = async (filter: Parameters<DenvClient['listVersions']>[0]) =>
          (await client.listVersions(filter)).versions.map(({ id }) => id);

        expect(await found({ owner: 'me' })).toEqual(taken);
        expect(await found({ owner: 'me', rolloutId: 'r2' })).toEqual([taken[1]]);
        expect(await found({ sandbox: one.id })).toEqual([taken[0], taken[2]]);
        expect(await found({ owner: 'you' })).toEqual([]);
      });

      it('is deleted only when no sandbox made from it lives', async () => {
        const { id } = await create();
        const version = await client.snapshot(id, {}, { key: 's' });
        const child = await forkOf(version.id);

        expect((await client.getVersion(version.id)).usedBy).toEqual([child.id]);
        await expect(client.deleteVersion(version.id)).rejects.toMatchObject({
          code: 'version_in_use',
          details: { usedBy: [child.id] },
        });
        await client.deleteSandbox(child.id);
        await client.deleteVersion(version.id);
        await client.deleteVersion(version.id);

        await fails(client.getVersion(version.id), 'version_not_found');
        await fails(client.forkVersion(version.id, {}, { key: 'f' }), 'version_not_found');
        await fails(
          client.createSandbox({ version: version.id }, { key: 'd' }),
          'version_not_found',
        );
      });

      it('of an image stays with it', async () => {
        const { version } = await create();

        expect((await client.getVersion(version)).sandbox).toBeNull();
        await fails(client.deleteVersion(version), 'invalid_request');
        await fails(client.retainVersion(version, { retentionS: 60 }), 'invalid_request');
      });

      it('gets another end of its retention', async () => {
        const { id } = await create();
        await client.snapshot(id, {}, { key: 's' });

        const kept = await client.retainVersion(versionIdOf('s'), { retentionS: 30 * 86_400 });

        expect(Date.parse(kept.retainUntil)).toBeGreaterThan(Date.now() + 29 * DAY_MS);
        expect(await client.getVersion(versionIdOf('s'))).toEqual(kept);
      });
    });

    describe('a fork', () => {
      it('of a running sandbox starts from what it holds now, and leaves it alone', async () => {
        const { id } = await create();
        await append(id, 'a', 'e1');

        const reply = await client.fork(id, { count: 2, labels: { owner: 'me' } }, { key: 'f' });
        await append(id, 'b', 'e2');
        const again = await client.fork(id, { count: 2, labels: { owner: 'me' } }, { key: 'f' });

        expect(reply.version).toBe(versionIdOf('f'));
        expect(again).toEqual(reply);
        expect(reply.children).toEqual(
          [0, 1].map((n) => ({
            sandbox: expect.objectContaining({
              id: sandboxIdOf(forkChildKey('f', n)),
              state: 'running',
              version: reply.version,
              forkedFrom: { sandbox: id, version: reply.version },
              labels: { owner: 'me' },
            }),
          })),
        );
        const child = sandboxIdOf(forkChildKey('f', 1));
        expect(await lines(child)).toEqual(['a']);
        expect(await lines(id)).toEqual(['a', 'b']);
        expect(await eventsOf(child)).toEqual(['forked']);
      });

      it('of a version starts from it, after its sandbox is gone too', async () => {
        const { id } = await create();
        await append(id, 'a', 'e');
        const version = await client.snapshot(id, {}, { key: 's' });
        await client.deleteSandbox(id);

        const child = await forkOf(version.id);
        const made = await client.createSandbox({ version: version.id }, { key: 'd' });

        expect(await lines(child.id)).toEqual(['a']);
        expect(await lines(made.id)).toEqual(['a']);
        expect(made.forkedFrom).toEqual({ sandbox: id, version: version.id });
      });

      it('says of each child that cannot be made why', async () => {
        const { id } = await create();
        await client.deleteSandbox(sandboxIdOf(forkChildKey('f', 0)));

        const { children } = await client.fork(id, { count: 2 }, { key: 'f' });

        expect(children).toEqual([
          { error: expect.objectContaining({ code: 'sandbox_gone' }) },
          { sandbox: expect.objectContaining({ state: 'running' }) },
        ]);
      });

      it('of what is not there is refused', async () => {
        await fails(client.forkVersion('ver_none', {}, { key: 'f' }), 'version_not_found');
      });
    });

    describe('files', () => {
      it('are read as they were written, and written once for one key', async () => {
        const { id } = await create();
        const bytes = Buffer.from([0, 255, 10]);
        const path = subject.pathIn(id, 'deep/bytes');

        await client.writeFile(id, path, bytes, { key: 'w1' });
        await client.writeFile(id, path, Buffer.from('later'), { key: 'w2' });
        await client.writeFile(id, path, bytes, { key: 'w1' });

        expect((await client.readFile(id, path)).toString()).toBe('later');
        await fails(client.writeFile(id, path, Buffer.from('x'), { key: 'w1' }), 'key_conflict');
        await fails(client.readFile(id, subject.pathIn(id, 'none')), 'invalid_request');
        await fails(client.readFile('sb_none', path), 'sandbox_not_found');
      });

      it('of a version stay as they were, and are compared with those of another', async () => {
        const { id, version: start } = await create();
        await write(id, 'a', 'one', 'w1');
        await write(id, 'b', 'same', 'w2');
        const before = await client.snapshot(id, {}, { key: 's1' });
        await write(id, 'a', 'three', 'w3');
        await write(id, 'c', 'new', 'w4');
        const after = await client.snapshot(id, {}, { key: 's2' });
        const at = (file: string) => subject.pathInVersion(file);

        expect((await client.readVersionFile(before.id, at('a'))).toString()).toBe('one');
        await fails(client.readVersionFile(before.id, at('c')), 'invalid_request');
        await fails(client.readVersionFile('ver_none', at('a')), 'version_not_found');
        expect(await client.diffVersions(before.id, after.id)).toEqual({
          files: [
            { path: at('a'), change: 'changed', bytes: 5 },
            { path: at('c'), change: 'added', bytes: 3 },
          ],
          more: 0,
        });
        expect((await client.diffVersions(after.id, start)).files).toEqual([
          { path: at('a'), change: 'removed', bytes: 5 },
          { path: at('b'), change: 'removed', bytes: 4 },
          { path: at('c'), change: 'removed', bytes: 3 },
        ]);
      });
    });

    (skipsVerify === null ? describe : describe.skip)(
      `a verify${skipsVerify === null ? '' : ` (${skipsVerify})`}`,
      () => {
        it('stops the sandbox, keeps what it judged and records the verdict', async () => {
          const { id } = await create();
          await append(id, 'a', 'e');

          const reply = await client.verify(id, { verifier }, { key: 'v' });
          const again = await client.verify(id, { verifier }, { key: 'v' });

          expect(reply).toMatchObject({
            version: versionIdOf('v'),
            verdict: 'reward',
            reward: 1,
            rewards: {},
            evidence: { principal: 'verifier', version: versionIdOf('v'), refused: null },
          });
          expect(again).toEqual(reply);
          const { state, stopped } = await client.getSandbox(id);
          expect({ state, stopped }).toMatchObject({
            state: 'stopped',
            stopped: { by: 'outside', what: 'verify_stop' },
          });
          expect(await eventsOf(id)).toEqual(['created', 'stopped', 'snapshot', 'verified']);
          await fails(client.verify(id, { verifier, stop: false }, { key: 'v' }), 'key_conflict');
        });

        it('leaves a stopped sandbox that can be snapshotted and forked, but not be called', async () => {
          const { id } = await create();
          await append(id, 'a', 'e');
          await client.verify(id, { verifier }, { key: 'v' });

          const stopped = {
            code: 'sandbox_stopped',
            details: { stopped: { what: 'verify_stop' } },
          };
          await expect(append(id, 'b', 'e2')).rejects.toMatchObject(stopped);
          await expect(appendByCall(id, 'b', 'k2')).rejects.toMatchObject(stopped);
          await fails(client.readFile(id, subject.pathIn(id, 'a')), 'sandbox_stopped');
          await client.snapshot(id, {}, { key: 's' });
          const [child] = (await client.fork(id, {}, { key: 'f' })).children;

          expect(child).toEqual({ sandbox: expect.objectContaining({ state: 'running' }) });
          expect(await lines(sandboxIdOf(forkChildKey('f', 0)))).toEqual(['a']);
        });

        it('leaves the sandbox running when it is asked to', async () => {
          const { id } = await create();

          await client.verify(id, { verifier, stop: false }, { key: 'v' });

          expect(await append(id, 'a', 'e')).toEqual(['a']);
        });

        it('of a version needs no sandbox, and is in the record of the one it was taken of', async () => {
          const { id } = await create();
          const version = await client.snapshot(id, {}, { key: 's' });
          await client.deleteSandbox(id);

          const reply = await client.verifyVersion(version.id, { verifier }, { key: 'v' });

          expect(reply).toMatchObject({ version: version.id, reward: 1 });
          expect(await eventsOf(id)).toEqual(['created', 'snapshot', 'deleted', 'verified']);
        });

        it('of what is not there is refused', async () => {
          await fails(client.verify('sb_none', { verifier }, { key: 'v' }), 'sandbox_not_found');
          await fails(
            client.verifyVersion('ver_none', { verifier }, { key: 'v' }),
            'version_not_found',
          );
        });
      },
    );

    async function forkOf(version: string) {
      const [child] = (await client.forkVersion(version, {}, { key: `fork ${version}` })).children;
      if (!child || 'error' in child) throw new Error(`no child of ${version}`);
      return child.sandbox;
    }
  });
}

/** Versions are listed by when they were taken, in whole milliseconds. */
const nextMs = () => new Promise((resolve) => setTimeout(resolve, 2));

/** Waits until the operation of a key has begun. */
async function running(client: DenvClient, key: string): Promise<void> {
  for (;;) {
    const begun = await client.operation(key).then(
      () => true,
      () => false,
    );
    if (begun) return;
    await nextMs();
  }
}
