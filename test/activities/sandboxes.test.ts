import { sha256 } from '../../rollouts/documents';
import type { Target } from '../../contracts/denv';
import { sandboxIdOf } from '../../denv/ids';
import { evidence } from '../fakes/fake-denv';
import { activitiesOnFakes, run } from './on-fakes';

const bash = { kind: 'bash' as const, name: 'tests', command: 'true' };

const attachOnly: Target = {
  name: 'tcp',
  missing: null,
  fork: 'none',
  memoryFork: false,
  egressDeny: false,
  caps: { cpus: false, memoryMb: false, pids: false, diskMb: false },
  gpu: false,
  exec: false,
  stdio: false,
  publish: false,
  attach: true,
  userNamespaces: false,
  separateVerify: false,
  images: [],
  notes: [],
};

const common = { taskRef: '', rolloutId: 'rollout/b/t/0', leaseS: 60 };

describe('createSandbox', () => {
  test('asks for what the task says, labelled, with its files', async () => {
    const bench = activitiesOnFakes();
    const { ref } = await bench.blobs.put(Buffer.from('tar'));
    const environment = {
      image: 'host',
      files: [{ from: './app', to: '/app' }],
      env: { A: '1' },
      caps: { memoryMb: 64 },
      controller: { kind: 'mcp-http' as const, command: ['node', '/app/main.mjs'], port: 8765 },
    };
    const task = {
      environment,
      setup: [['true']],
      verifier: { image: 'host', command: ['sh'], noVerdict: 'zero' as const },
    };
    const taskRef = await bench.put(
      bench.packed(task, { environmentFiles: [{ to: '/app', ref, bytes: 3 }] }),
    );

    const started = await run(bench.activities.createSandbox, {
      ...common,
      key: 'k/create',
      taskRef,
    });

    expect(started).toMatchObject({
      sandboxId: sandboxIdOf('k/create'),
      task: { setupCommands: 1, solutionCommands: 0, verifyTimeoutS: 600, noVerdict: 'zero' },
    });
    expect(bench.denv.created.get('k/create')).toEqual({
      image: 'host',
      env: { A: '1' },
      caps: { memoryMb: 64 },
      controller: environment.controller,
      files: [{ to: '/app', sha256: sha256('tar') }],
      egress: 'deny',
      labels: { owner: 'own/ns', rolloutId: 'rollout/b/t/0' },
      leaseS: 60,
    });
  });

  test('a HUD task is attached to where it runs, with nothing claimed about its network', async () => {
    const bench = activitiesOnFakes();
    const environment = { address: '127.0.0.1:8765', shared: 2, target: 'tcp' };
    const hud = { id: 'add', gradeTimeoutS: 9, noGrade: 'zero' as const };
    const taskRef = await bench.put(bench.packed({ environment, hud, verifier: undefined }));

    const started = await run(bench.activities.createSandbox, { ...common, key: 'k', taskRef });

    expect(bench.denv.created.get('k')).toEqual({
      ...environment,
      controller: { kind: 'hud' },
      labels: { owner: 'own/ns', rolloutId: 'rollout/b/t/0' },
      leaseS: 60,
    });
    expect(started.task).toEqual({
      setupCommands: 0,
      solutionCommands: 0,
      unforkable: true,
      verifyTimeoutS: 600,
      noVerdict: 'unscored',
      hud: { startTimeoutS: 3600, gradeTimeoutS: 9, noGrade: 'zero' },
      grading: {
        combine: 'weighted',
        graders: [
          {
            name: 'hud',
            kind: 'hud',
            weight: 1,
            index: null,
            timeoutS: 9,
            criteria: 0,
            counts: true,
          },
        ],
      },
    });
  });

  test.each([
    ['verify', {}],
    ['bash', { verifier: undefined, grading: { graders: [bash] } }],
  ] as const)(
    'refuses a grader of kind %s where the target has none, before the agent',
    async (kind, more) => {
      const bench = activitiesOnFakes();
      bench.denv.client.targets = () => Promise.resolve({ targets: [attachOnly] });
      const environment = { address: '127.0.0.1:8765' };
      const task = { environment, hud: { id: 'add' }, ...(more as object) };
      const taskRef = await bench.put(bench.packed(task));

      await expect(
        run(bench.activities.createSandbox, { ...common, key: 'k', taskRef }),
      ).rejects.toMatchObject({
        type: 'CapabilityMissing',
        message: expect.stringContaining(`a grader of kind ${kind} cannot be had on target tcp`),
      });
      expect(bench.denv.effectsOf('create')).toEqual([]);
    },
  );

  test('the same key gives the same sandbox', async () => {
    const bench = activitiesOnFakes();
    const input = { ...common, key: 'k/create', taskRef: await bench.put(bench.packed()) };

    const first = await run(bench.activities.createSandbox, input);
    const second = await run(bench.otherWorker().createSandbox, input, 2);

    expect(second).toEqual(first);
    expect(bench.denv.effectsOf('create')).toHaveLength(1);
  });

  test('a task blob of another kind is refused for good', async () => {
    const bench = activitiesOnFakes();
    const input = { ...common, key: 'k', taskRef: await bench.put({ nonsense: 1 }) };

    await expect(run(bench.activities.createSandbox, input)).rejects.toMatchObject({
      type: 'ContractMismatch',
      nonRetryable: true,
    });
  });
});

describe('forkVersion', () => {
  test('a child that failed is a final failure: the fork’s outcome is kept', async () => {
    const bench = activitiesOnFakes();
    bench.denv.client.forkVersion = () =>
      Promise.resolve({
        version: 'ver_1',
        pausedMs: null,
        children: [{ error: { code: 'disk_full', message: 'no room' } }],
      });
    const input = {
      ...common,
      key: 'k',
      version: 'ver_1',
      taskRef: await bench.put(bench.packed()),
    };

    await expect(run(bench.activities.forkVersion, input)).rejects.toMatchObject({
      type: 'DiskFull',
      nonRetryable: true,
      message: 'no room',
    });
  });
});

describe('deleteSandbox', () => {
  test('deletes by the key it was made with, before anybody knows its id', async () => {
    const bench = activitiesOnFakes();

    await run(bench.activities.deleteSandbox, { key: 'k/create', by: 'create' });
    await run(bench.activities.deleteSandbox, { key: 'k/restore', by: 'fork' });

    expect(bench.denv.deleted).toEqual([sandboxIdOf('k/create'), sandboxIdOf('k/restore#0')]);
  });
});

describe('listTools', () => {
  test('reads every page, under keys of their own', async () => {
    const bench = activitiesOnFakes();
    const { id } = await bench.denv.client.createSandbox({ image: 'host' }, { key: 'k' });
    const tool = (name: string) => ({ name, inputSchema: {} });
    bench.denv.handlers.call = ({ params }) =>
      params?.cursor === 'c1'
        ? { result: { tools: [tool('b')] }, timedOut: false, durationS: 0 }
        : { result: { tools: [tool('a')], nextCursor: 'c1' }, timedOut: false, durationS: 0 };

    const { agentRef } = await run(bench.activities.listTools, {
      key: 'k/tools',
      sandboxId: id,
      taskRef: 'sha256:t',
      model: { name: 'm', settings: {}, price: null },
      timeoutS: 5,
    });

    const context = JSON.parse(String(await bench.blobs.get(agentRef))) as {
      tools: { name: string }[];
    };
    expect(context.tools.map(({ name }) => name)).toEqual(['a', 'b']);
    expect(bench.denv.effectsOf('call')).toEqual(['k/tools/0', 'k/tools/1']);
  });
});

describe('verify', () => {
  test('sends the verifier with its files, and keeps the evidence', async () => {
    const bench = activitiesOnFakes();
    const { ref } = await bench.blobs.put(Buffer.from('tar'));
    const verifier = {
      image: 'host',
      command: ['sh', '/v.sh'],
      collect: ['/a', { path: '/b' }],
      timeoutS: 9,
    };
    const taskRef = await bench.put(
      bench.packed({ verifier }, { verifierFiles: [{ to: '/v.sh', ref, bytes: 3 }] }),
    );
    const { id } = await bench.denv.client.createSandbox({ image: 'host' }, { key: 'k' });
    let sent: unknown;
    bench.denv.handlers.verify = (request, { version }) => {
      sent = request;
      const base = { version, verdict: 'reward' as const, reward: 0.5, rewards: { speed: 1 } };
      return { ...base, evidence: { ...evidence(version), missing: ['/b'] } };
    };

    const verdict = await run(bench.activities.verify, {
      key: 'k/verify/0',
      taskRef,
      rolloutId: 'r',
      target: { sandboxId: id },
      of: 'submission',
    });

    expect(sent).toEqual({
      verifier: {
        image: 'host',
        command: ['sh', '/v.sh'],
        collect: ['/a', { path: '/b', exclude: [] }],
        timeoutS: 9,
        files: [{ to: '/v.sh', sha256: sha256('tar') }],
      },
      stop: true,
      labels: { owner: 'own/ns', rolloutId: 'r' },
    });
    expect(verdict).toMatchObject({
      key: 'k/verify/0',
      verdict: 'reward',
      reward: 0.5,
      rewards: { speed: 1 },
      summary: 'reward 0.5, 0 files collected, missing /b',
    });
    expect(JSON.parse(String(await bench.blobs.get(verdict.evidenceRef)))).toMatchObject({
      missing: ['/b'],
    });
  });
});
