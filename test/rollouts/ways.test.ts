import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Task } from '../../contracts/task';
import { loadTaskset } from '../../tasks/rows';
import { refusedWay, chooseWay } from '../../rollouts/ways';

const verifier = { image: 'host', command: ['true'] };
const plain: Task = { id: 't', prompt: 'p', environment: { image: 'host' }, verifier };
const hud: Task = { id: 't', hud: { id: 'add' }, environment: { version: 'ver_1' } };

describe('the way that continuations go', () => {
  it.each([
    ['a plain task', plain, undefined, 'snapshot'],
    ['a HUD task', hud, undefined, 'replay'],
    ['a task that says one', { ...plain, continuation: 'replay' as const }, undefined, 'replay'],
    [
      'somebody who asks',
      { ...plain, continuation: 'replay' as const },
      'snapshot' as const,
      'snapshot',
    ],
  ])('of %s', (_what, task, asked, way) => {
    expect(chooseWay(task, asked).way).toBe(way);
  });

  it.each<[string, Task, boolean]>([
    ['a HUD task with its own grade', hud, true],
    ['a HUD task that a verifier judges', { ...hud, verifier }, false],
    [
      'a HUD task with a HUD grader',
      { ...hud, verifier, grading: { graders: [{ kind: 'verify' }, { kind: 'hud' }] } },
      true,
    ],
    ['a plain task', plain, false],
  ])('is refused as a snapshot for %s: %s', (_what, task, refused) => {
    expect(refusedWay(task, 'snapshot') !== null).toBe(refused);
    expect(refusedWay(task, 'replay')).toBeNull();
  });
});

describe('a taskset', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'ways-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const hudRow =
    'hud: {id: add}, environment: {image: host, controller: {kind: hud, command: [serve]}}';
  const plainRow =
    'prompt: p, environment: {image: host}, verifier: {image: host, command: ["true"]}';

  const load = async (fields: string) => {
    await writeFile(join(dir, 'set.yaml'), `name: set\ntasks:\n  - {id: a, ${fields}}\n`);
    const { tasks } = await loadTaskset(join(dir, 'set.yaml'), { imagesAreHere: true });
    return tasks[0];
  };

  it('says how its rollouts are checkpointed, kept and gone on from', async () => {
    const fields = `${plainRow}, checkpoints: mutating, continuation: replay, keep: best, checkpointTools: true`;

    expect(await load(fields)).toMatchObject({
      checkpoints: 'mutating',
      continuation: 'replay',
      keep: 'best',
      checkpointTools: true,
    });
  });

  it.each([
    [
      plainRow,
      'continuation: memory',
      'continuation: "memory" does not fit; give one of `snapshot`, `replay`',
    ],
    [
      hudRow,
      'continuation: snapshot',
      'continuation: `snapshot`: a HUD task lives in its environment\u2019s memory',
    ],
    [hudRow, 'checkpointTools: true', 'checkpointTools: an agent cannot roll back a HUD task'],
    [hudRow, 'checkpoints: step', 'checkpoints: a HUD task lives in its environment\u2019s memory'],
    [plainRow, 'keep: some', 'keep'],
    [plainRow, 'continuation: undo', 'continuation'],
    [plainRow, 'checkpointTools: yes please', 'checkpointTools'],
  ])('with %s refuses %s', async (row, field, message) => {
    await expect(load(`${row}, ${field}`)).rejects.toThrow(message);
  });

  it('lets a HUD task that a verifier alone judges be snapshotted', async () => {
    const verified = `${hudRow}, verifier: {image: host, command: ["true"]}`;

    expect(await load(`${verified}, continuation: snapshot, checkpoints: step`)).toMatchObject({
      continuation: 'snapshot',
      checkpoints: 'step',
    });
  });
});
