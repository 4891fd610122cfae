import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Rollouts } from '../../client/connect';
import { UsageError } from '../../client/errors';
import { inputName, startExploration } from '../../client/explore';
import type { RolloutInput } from '../../contracts/rollout';
import type { PackedTask } from '../../contracts/task';
import { createDirectoryBlobs } from '../../stores/directory-blobs';

describe('exploring', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'explore-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  it('refuses a HUD task by name, and starts nothing', async () => {
    const blobs = createDirectoryBlobs(dir);
    const put = (value: unknown) => Buffer.from(JSON.stringify(value));
    const packed: PackedTask = {
      id: 't',
      taskset: 's',
      digest: 'd',
      task: { id: 't', hud: { id: 'add' }, environment: { version: 'ver_1' } },
      environmentFiles: [],
      verifierFiles: [],
    };
    const input: RolloutInput = {
      rolloutId: 'rollout/b/t/0',
      batchId: 'b',
      taskId: 't',
      index: 0,
      taskRef: (await blobs.put(put(packed))).ref,
      identity: 'i',
      owner: 'o',
      agent: 'nop',
      model: { name: '', settings: {}, price: null },
      limits: {},
      checkpoints: 'never',
      onOutcomeUnknown: 'report',
    };
    await blobs.putIfAbsent(inputName(input.rolloutId), put(input));
    const rollouts = { blobs } as Rollouts; // nothing else is asked before the refusal

    const asked = startExploration(rollouts, { rolloutId: input.rolloutId, step: 1, count: 2 });

    await expect(asked).rejects.toThrow(UsageError);
    await expect(asked).rejects.toThrow(
      "rollout/b/t/0 is a HUD task, which lives in its environment's memory",
    );
  });
});
