import type { SandboxOrigin } from '../../activities/sandboxes';
import type { TaskFacts } from '../../rollouts/task-facts';
import type { PendingEntry } from '../../activities/trajectory';
import type {
  AttemptResult,
  Checkpoint,
  Failure,
  GradeResult,
  Outcome,
  RolloutInput,
  RolloutResult,
  Stage,
  StopReason,
  TokenCheck,
  VerdictResult,
} from '../../contracts/rollout';

/** The sandbox that an agent works in, once it is there. */
export interface AgentSandbox {
  sandboxId: string;
  /** What the attempt's first sandbox started from. */
  startVersion: string;
  task: TaskFacts;
  /** Set once the controller has listed its tools. */
  agentRef: string | null;
  /** Set once a HUD task has started: blob ref of its prompt, null when it gave none. */
  promptRef?: string | null;
}

/**
 * All that a rollout knows, as plain data that is small enough to be carried into its next run: whatever is large is a ref. The
 * spent budget and the counts add up over attempts and restores.
 */
export interface RolloutState {
  rolloutId: string;
  stage: Stage;
  startedAt: string;
  paused: boolean;
  /** Messages of a person that the agent has not been shown. */
  inbox: string[];

  attempt: number;
  restores: number;
  /** The sandbox of this attempt. A run that continues as new finds it under this name. */
  world: AgentSandbox | null;
  /** Sandboxes that were asked for and not yet deleted. */
  open: SandboxOrigin[];
  /** Id of the last sandbox, kept after its end. */
  sandboxId: string;
  /** Tool calls of this attempt. A controller that breaks at the first one was not broken by the agent. */
  callsInAttempt: number;
  /** When this attempt's sandbox was ready. */
  readyAtMs: number | null;

  step: number;
  head: string;
  pending: PendingEntry[];
  spent: Checkpoint['spent'];
  usage: RolloutResult['usage'];
  modelCalls: number;
  modelCallsReissued: number;
  toolCalls: number;

  /** The latest ones; every version is in the trajectory beside its observation. */
  checkpoints: Checkpoint[];
  /** The agent's own checkpoints, by the names that it gave them. */
  named: { name: string; version: string; step: number }[];
  rollbacks: number;
  /** Where a continuation makes its parent's calls again: their plan, and how many this attempt has made. */
  replay: { planRef: string; calls: number; made: number } | null;
  /** How many checkpoints people have asked for between two steps, and the answer to all up to a number. */
  checkpointsAsked: number;
  answered: { upTo: number; checkpoint: Checkpoint | null; refusal: string | null };
  attempts: AttemptResult[];
  verdicts: VerdictResult[];
  grades: GradeResult[];
  tokens: TokenCheck | null;
  restored: RolloutResult['lineage']['restored'];
  /** A sandbox that the host lost is restored once; a host that loses it again is not worked around. */
  hostRestored: boolean;
  /** The stop reason that the agent's last reply means, unless a person answers it. */
  lastWord: StopReason | null;
  stopReason: StopReason | null;
  /** The agent's failure, reported beside its score. */
  agentFailure: Failure | null;
  end: RolloutEnding | null;
}

export interface RolloutEnding {
  outcome: Outcome;
  reward: number | null;
  rewards: Record<string, number>;
  failure: Failure | null;
  submissionCaused: boolean;
}

export function initialState(input: RolloutInput, startedAt: string): RolloutState {
  const { from } = input;
  return {
    rolloutId: input.rolloutId,
    startedAt,
    paused: false,
    inbox: [],
    attempt: 1,
    open: [],
    sandboxId: '',
    // A checkpoint is taken before its step, which the continuation makes anew.
    step: from ? from.step - 1 : 0,
    spent: from ? { ...from.spent } : { tokens: 0, costUsd: 0, workedS: 0 },
    usage: { promptTokens: 0, completionTokens: 0, costUsd: input.model.price ? 0 : null },
    modelCalls: 0,
    modelCallsReissued: 0,
    toolCalls: 0,
    rollbacks: 0,
    checkpointsAsked: 0,
    answered: { upTo: 0, checkpoint: null, refusal: null },
    attempts: [],
    verdicts: [],
    restored: [],
    hostRestored: false,
    end: null,
    ...freshAttempt(input),
  };
}

/** What each attempt begins with: the task's start, in a new sandbox. What was spent stays spent. */
export const freshAttempt = ({ from }: RolloutInput) =>
  ({
    stage: 'create',
    restores: 0,
    world: null,
    callsInAttempt: 0,
    readyAtMs: null,
    head: from?.trajectory ?? '',
    pending: [],
    checkpoints: [],
    named: [],
    replay: null,
    tokens: null,
    grades: [],
    lastWord: null,
    stopReason: null,
    agentFailure: null,
  }) satisfies Partial<RolloutState>;

/** Time is counted in whole milliseconds, however it is summed up. */
export const toMs = (seconds: number): number => Math.round(seconds * 1000) / 1000;
