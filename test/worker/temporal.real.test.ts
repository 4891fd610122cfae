import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isOwnerIn, ownerLabel } from '../../rollouts/owner';
import { openWork } from '../../retention/open-work';
import { readNamespaceId } from '../../temporal/states';
import { registerSearchAttributes } from '../../worker/search-attributes';
import { openTemporal } from '../temporal-env';
import type { TemporalEnv } from '../temporal-env';

describe('what a worker asks of Temporal', () => {
  let env: TemporalEnv;
  let namespace: string;
  let dir: string;

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'rollouts-owner-'));
    env = await openTemporal();
    namespace = env.temporal.namespace ?? 'default';
  });

  afterAll(async () => {
    await env.close();
    rmSync(dir, { recursive: true });
  });

  test('search attributes are registered once, and rollouts can be found by them', async () => {
    const { nativeConnection, client } = env.temporal;
    expect(await registerSearchAttributes(nativeConnection, namespace)).toBe(true);
    expect(await registerSearchAttributes(nativeConnection, namespace)).toBe(true);

    await env.run({ agent: 'nop', batchId: 'found', searchAttributes: true });

    const query = 'RolloutBatch = "found" AND RolloutOutcome = "scored" AND RolloutReward > 0.5';
    for (let tries = 0; ; tries += 1) {
      const { count } = await client.workflow.count(query);
      if (count === 1) break;
      if (tries === 100) throw new Error(`found ${count}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  });

  test('a refusal is told, and is no failure', async () => {
    expect(await registerSearchAttributes(env.temporal.nativeConnection, 'no-such')).toBe(false);
  });

  test('the owner is this installation in this namespace, whoever asks', async () => {
    const { workflowService } = env.temporal.nativeConnection;
    const file = join(dir, 'home', 'owner');

    const label = ownerLabel(file, await readNamespaceId(workflowService, namespace));

    expect(label).toMatch(/^own_[0-9a-f]{16}\/[0-9a-f-]{36}$/);
    expect(label).toBe(ownerLabel(file, await readNamespaceId(workflowService, namespace)));
    expect(label.split('/')[0]).toBe(readFileSync(file, 'utf8').trim());
  });

  test('the state of a rollout is Temporal’s own word, or that it knows none', async () => {
    const { input } = await env.run({ agent: 'nop' });
    const states = openWork(env.temporal.client);

    expect(await states.stateOf(input.rolloutId)).toBe('COMPLETED');
    expect(await states.stateOf('rollout/none')).toBe('GONE');
    const { workflowService } = env.temporal.nativeConnection;
    const label = ownerLabel(join(dir, 'owner'), await readNamespaceId(workflowService, namespace));
    expect(isOwnerIn(await states.namespaceId(), label)).toBe(true);
  });
});
