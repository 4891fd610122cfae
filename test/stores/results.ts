import type { RolloutResult } from '../../contracts/rollout';
import type { DeclaredRollout } from '../../stores/ledger';

/** A scored rollout, for tests that need one; `over` changes what matters to them. */
export function rolloutResult(over: Partial<RolloutResult> = {}): RolloutResult {
  const rolloutId = over.rolloutId ?? 'rollout/b/t/0';
  return {
    rolloutId,
    batchId: 'b',
    taskId: 't',
    index: 0,
    identity: 'id-1',
    agent: 'model',
    model: 'scripted/x',
    outcome: 'scored',
    reward: 0.5,
    rewards: { speed: 1 },
    failure: null,
    stopReason: 'done',
    steps: 2,
    attempts: [{ attempt: 1, sandboxId: 'sb_1', failure: null, stopReason: 'done' }],
    modelCalls: 3,
    modelCallsReissued: 1,
    toolCalls: 2,
    usage: { promptTokens: 10, completionTokens: 5, costUsd: null },
    workedS: 1.5,
    sandboxId: 'sb_1',
    trajectory: 'sha256:00',
    checkpoints: [
      {
        step: 1,
        version: 'ver_1',
        trajectory: 'sha256:00',
        spent: { tokens: 7, costUsd: 0, workedS: 1 },
      },
    ],
    grades: [],
    tokens: null,
    verdicts: [
      {
        key: `${rolloutId}/1/verify/0`,
        version: 'ver_2',
        verdict: 'reward',
        reward: 0.5,
        rewards: { speed: 1 },
        evidenceRef: 'sha256:01',
        summary: 'reward 0.5',
        of: 'submission',
      },
    ],
    submissionCaused: false,
    lineage: { parentRolloutId: null, step: null, version: null, restored: [] },
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: '2026-01-01T00:01:00.000Z',
    ...over,
  };
}

export function declaredRollout(over: Partial<DeclaredRollout> = {}): DeclaredRollout {
  return {
    rolloutId: 'rollout/b/t/0',
    batchId: 'b',
    taskId: 't',
    index: 0,
    identity: 'id-1',
    agent: 'model',
    model: 'scripted/x',
    parentRolloutId: null,
    parentStep: null,
    ...over,
  };
}
