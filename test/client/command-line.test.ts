import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { newFailure } from '../../contracts/failures';
import { runCommandLine } from '../../client/command-line';
import { settingsFrom } from '../../client/settings';
import { createDirectoryBlobs } from '../../stores/directory-blobs';
import { openLedger } from '../../stores/sqlite/ledger';
import { declaredRollout, rolloutResult } from '../stores/results';

describe('the command line, without a stack', () => {
  let home: string;
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'home-'));
  });
  afterEach(() => rm(home, { recursive: true, force: true }));

  async function rollouts(...args: string[]) {
    const out: string[] = [];
    const err: string[] = [];
    let code = 0;
    const env = { ROLLOUTS_HOME: home, PATH: process.env['PATH'] };
    await runCommandLine(args, {
      settings: settingsFrom(env),
      env,
      print: (line) => out.push(line),
      note: (line) => err.push(line),
      exitWith: (value) => (code = value),
    });
    return { code, out: out.join('\n'), err: err.join('\n') };
  }

  const commands = [
    'up',
    'down',
    'status',
    'targets',
    'run',
    'watch',
    'list',
    'show',
    'cancel',
    'pause',
    'resume',
    'message',
    'explore',
    'fork',
    'tree',
    'diff',
    'shell',
    'export',
    'regrade',
    'checkpoints',
    'doctor',
    'scripted',
  ];

  it.each(commands)('explains %s with an example', async (command) => {
    const { code, out } = await rollouts(command, '--help');

    expect(code).toBe(0);
    expect(out).toContain(`Usage: rollouts ${command}`);
    expect(out).toMatch(new RegExp(`Examples?:\n  rollouts ${command}`));
  });

  it.each([
    [['frob'], "error: unknown command 'frob'"],
    [['run'], "error: missing required argument 'taskset'"],
    [['run', 'x.yaml', '--group', '0'], 'Give a whole number from 1 to 1000.'],
    [['run', 'x.yaml', '--agent', 'human'], 'Give one of: model, oracle, nop.'],
    [['up', '--denv-port', '70000'], 'Give a whole number from 0 to 65535.'],
    [['list', '--class', 'bad'], 'Give one of: infra, controller, model,'],
    [['fork', 'rollout/b/t/0'], "error: required option '--at <step|last>' not specified"],
    [['fork', 'rollout/b/t/0', '--at', '1', '--count', '65'], 'Give a whole number from 1 to 64.'],
    [
      ['fork', 'rollout/b/t/0', '--at', '1', '--edit-observation', 'x'],
      'give call=file, as in 2.1=seen.txt or 2.1=-',
    ],
    [
      ['explore', 'rollout/b/t/0', '--at', 'first'],
      'Give the number of a step, last or uncertain.',
    ],
    [['explore', 'rollout/b/t/0', '--depth', '101'], 'Give a whole number from 1 to 100.'],
    [['explore', 'rollout/b/t/0', '--branch', '65'], 'Give a whole number from 1 to 64.'],
    [['explore', 'rollout/b/t/0', '--concurrency', '65'], 'Give a whole number from 1 to 64.'],
    [
      ['explore', 'rollout/b/t/0', '--max-continuations', '10001'],
      'Give a whole number from 1 to 10000.',
    ],
    [['explore', 'rollout/b/t/0', '--strategy', 'best'], 'Give one of: flat, tree, value.'],
    [
      ['explore', 'rollout/b/t/0', '--stop-when', 'reward>1'],
      "Give 'reward>=1', or another number in it.",
    ],
    [['explore', 'rollout/b/t/0', '--budget', '0'], 'Give a number above 0.'],
    [['explore', 'rollout/b/t/0', '--way', 'undo'], 'Give one of: snapshot, replay.'],
    [['export', 'b'], "error: required option '--training <file>' not specified"],
    [
      ['run', 'x.yaml', '--checkpoints', '0'],
      'Give step, mutating, never or a whole number of steps.',
    ],
    [['run', 'x.yaml', '--keep', 'some'], 'Give one of: final, all, best, none.'],
    [
      ['run', 'none.yaml', '--agent', 'nop'],
      'none.yaml: there is no such file; name a taskset file',
    ],
  ])('answers %j with exit code 2 and what is wrong', async (args, message) => {
    const { code, out, err } = await rollouts(...args);

    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
    expect(await readdir(home)).toEqual([]);
  });

  const tiny = resolve(__dirname, '../fixtures/tiny/taskset.yaml');

  it.each([
    ['run', tiny, '--agent', 'oracle'],
    ['watch', 'b'],
    ['cancel', 'b'],
    ['pause', 'rollout/b/t/0'],
    ['explore', 'rollout/b/t/0', '--at', '1'],
    ['fork', 'rollout/b/t/0', '--at', '1'],
    ['diff', 'rollout/b/t/0', 'rollout/b/t/1'],
    ['shell', 'rollout/b/t/0'],
  ])('says how to start the stack that %s needs', async (...args) => {
    const { code, err } = await rollouts(...args);

    expect(code).toBe(1);
    expect(err).toBe(
      `the stack of ${home} is not running\nStart the stack with: rollouts up --detach`,
    );
  });

  it('refuses a taskset before it asks for the stack, and starts nothing', async () => {
    const file = join(home, 'bad.yaml');
    await writeFile(file, 'name: bad\ntasks:\n  - id: a\n    prompt: p\n');

    const { code, err } = await rollouts('run', file, '--agent', 'nop');

    expect(code).toBe(2);
    expect(err).toContain(`${file}:3: task "a": environment.image: missing`);
    expect(await readdir(home)).toEqual(['bad.yaml']);
  });

  it('tells a stack that does not run by its exit code', async () => {
    const { code, out } = await rollouts('status');

    expect(code).toBe(1);
    expect(out).toBe(`The stack of ${home} does not run. Start it with: rollouts up --detach`);
    expect((await rollouts('status', '--json')).out).toBe('null');
  });

  async function record(): Promise<void> {
    const { paths } = settingsFrom({ ROLLOUTS_HOME: home });
    const blobs = createDirectoryBlobs(paths.blobs);
    const put = async (value: unknown) => (await blobs.put(Buffer.from(JSON.stringify(value)))).ref;
    const reply = {
      text: 'I look.',
      toolCalls: [{ id: 'c1', name: 'bash', arguments: { command: 'ls' } }],
      finishReason: 'tool_calls',
      usage: { promptTokens: 1, completionTokens: 1, costUsd: null },
      durationS: 0.1,
      model: 'm',
    };
    const content = [{ type: 'text', text: 'x'.repeat(2000) }];
    const observation = { toolCallId: 'c1', name: 'bash', isError: false, content, durationS: 0.1 };
    const first = await put({ prev: null, entries: [{ type: 'prompt', text: 'Do it.' }] });
    const head = await put({
      prev: first,
      entries: [
        { type: 'reply', step: 1, reply },
        { type: 'observation', step: 1, observation },
      ],
    });
    const ledger = await openLedger(paths.ledger);
    const failure = newFailure('VerifierFailed', 'verify', 'crashed');
    await ledger.recordResult(rolloutResult({ trajectory: head, verdicts: [] }));
    await ledger.recordResult(
      rolloutResult({ rolloutId: 'rollout/b/t/1', outcome: 'unscored', reward: null, failure }),
    );
    await ledger.declareRollouts([
      declaredRollout({
        rolloutId: 'rollout/b/t/0/e1.1',
        parentRolloutId: 'rollout/b/t/0',
        parentStep: 1,
      }),
    ]);
    await ledger.close();
  }

  it('lists what the ledger has', async () => {
    await record();

    expect((await rollouts('list')).out.split('\n')).toEqual([
      'rollout             outcome        reward  stop  failure',
      'rollout/b/t/0       scored         0.5     done',
      'rollout/b/t/1       unscored       -       done  verifier',
      'rollout/b/t/0/e1.1  no result yet  -       -',
    ]);
    const { out } = await rollouts('list', '--unscored', '--class', 'verifier', '--json');
    expect(JSON.parse(out)).toMatchObject([
      { rolloutId: 'rollout/b/t/1', reward: null, failure: { class: 'verifier' } },
    ]);
    const one = await rollouts('list', '--limit', '1');
    expect(one.err).toBe('these are the newest 1; list more with --limit');
  });

  it('shows a recorded rollout: steps, tool calls, observations, lineage', async () => {
    await record();

    const { out } = await rollouts('show', 'rollout/b/t/0');

    expect(out).toContain('outcome   scored, reward 0.5, stop reason done');
    expect(out).toContain('  prompt: Do it.\n  step 1: I look.\n    calls bash {"command":"ls"}\n');
    expect(out).toContain(`    sees: ${'x'.repeat(1500)}… (2000 characters)`);
    expect(out).toContain('  continued at step 1: rollout/b/t/0/e1.1 (no result yet)');
    expect(out).toContain('rollouts explore rollout/b/t/0 --at 1 --count 3');
    const json = JSON.parse((await rollouts('show', 'rollout/b/t/0', '--json')).out);
    expect(json).toMatchObject({
      rollout: { rolloutId: 'rollout/b/t/0' },
      result: { reward: 0.5 },
      trajectory: [{ type: 'prompt' }, { type: 'reply' }, { type: 'observation' }],
      continuations: [{ rolloutId: 'rollout/b/t/0/e1.1', step: 1 }],
      sandbox: { id: 'sb_1', state: 'not known' },
    });
  });

  it('knows when there is no such rollout', async () => {
    const { code, err } = await rollouts('show', 'rollout/x/y/0');

    expect({ code, err }).toEqual({
      code: 1,
      err: 'there is no rollout rollout/x/y/0; see: rollouts list',
    });
  });
});
