import { PackedTask } from '../contracts/task';
import type { GradeResult, RolloutResult, VerdictResult } from '../contracts/rollout';
import { sha256 } from '../rollouts/documents';
import { FoundError } from './support/failures';
import { activity } from './support/heartbeat';
import type { Parts } from './support/parts';
import { toTaskFacts } from '../rollouts/task-facts';
import type { GradingFacts } from '../rollouts/task-facts';

/** What a rollout's reward is made of, beside the verdict that is given anew. */
export interface RegradeFacts {
  verifyTimeoutS: number;
  verifierDigest: string;
  /** Left out where the verifier alone gives the reward. */
  grading?: GradingFacts;
  /** What the other graders said when the rollout ended: they are not asked again. */
  grades: GradeResult[];
}

/** A judgement, to be recorded. */
export interface RegradeRecord {
  regradeId: string;
  rolloutId: string;
  version: string;
  verdict: VerdictResult | null;
  reward: number | null;
  rewards: Record<string, number>;
  why: string | null;
  verifierDigest: string;
  at: string;
}

export function regradeFactsOf(
  { task, verifierFiles }: PackedTask,
  { grades }: Pick<RolloutResult, 'grades'>,
): RegradeFacts {
  const { verifyTimeoutS, grading } = toTaskFacts(task);
  return {
    verifyTimeoutS,
    verifierDigest: `sha256:${sha256(JSON.stringify([task.verifier, verifierFiles]))}`,
    ...(grading ? { grading } : {}),
    grades: grades.filter(({ kind }) => kind !== 'verify'),
  };
}

export function regradeActivities({ documents, ledger }: Parts) {
  return {
    /** Reads what a judgement needs: of the task that judges, and of the rollout's own result. */
    readRegradeFacts: activity(
      async (input: { rolloutId: string; taskRef: string }): Promise<RegradeFacts> => {
        const packed = await documents.get(PackedTask, input.taskRef);
        if (!packed.task.verifier) {
          throw new FoundError('InvalidRequest', `task ${packed.id} has no verifier`);
        }
        const row = await ledger.rollout(input.rolloutId);
        if (!row?.result) {
          throw new FoundError('InvalidRequest', `the ledger has no result of ${input.rolloutId}`);
        }
        return regradeFactsOf(packed, row.result);
      },
    ),

    /** Adds a judgement to those of its rollout. Idempotent: the first recorded one of a regrade and a rollout stays. */
    recordRegrade: activity(async (record: RegradeRecord): Promise<{ judged: boolean }> => {
      const { verdict, reward } = await ledger.recordRegrade(record);
      return { judged: verdict !== null && verdict.verdict !== 'none' && reward !== null };
    }),
  };
}
