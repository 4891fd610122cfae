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
  RolloutStatus,
  Stage,
  StopReason,
  TokenCheck,
  VerdictResult,
} from '../../contracts/rollout';

/** The sandbox that a rollout works in, once it is there. */
export interface World {
  sandboxId: string;
  /** What the attempt's first sandbox started from. */
  startVersion: string;
  task: TaskFacts;
  /** Set once the controller has told its tools. */
  agentRef: string | null;
  /** Of a HUD task, once it was started: blob ref of its prompt, null when it gave none. */
  promptRef?: string | null;
}

/**
 * All that a rollout knows, small enough to be carried into its next run: whatever is large is a ref. Spent budget and counts
 * run on over attempts and restores.
 */
export interface RolloutState {
  rolloutId: string;
  stage: Stage;
  startedAt: string;
  paused: boolean;
  /** Words of a person that the agent has not been shown. */
  inbox: string[];

  attempt: number;
  restores: number;
  world: World | null;
  /** Sandboxes that were asked for and not yet deleted. */
  open: SandboxOrigin[];
  /** Id of the last sandbox, kept after its end. */
  sandboxId: string;
  /** Tool calls of this attempt: before the first, a broken controller is nobody's doing. */
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

  /** The latest `keptCheckpoints`; every version is in the trajectory beside its observation. */
  checkpoints: Checkpoint[];
  /** The agent's own checkpoints, by the names that it gave them. */
  named: { name: string; version: string; step: number }[];
  rollbacks: number;
  /** Of a continuation by replay: its recorded calls, and how many were made again in this attempt. */
  replay: { planRef: string; calls: number; made: number } | null;
  /** Checkpoints that somebody asked for between two steps, and the answer to all up to a number. */
  checkpointsAsked: number;
  answered: { upTo: number; checkpoint: Checkpoint | null; refusal: string | null };
  attempts: AttemptResult[];
  verdicts: VerdictResult[];
  grades: GradeResult[];
  tokens: TokenCheck | null;
  restored: RolloutResult['lineage']['restored'];
  /** A host that loses a sandbox again and again is not worked around for ever. */
  hostRestored: boolean;
  /** What the agent's last reply ends with, if nobody objects. */
  lastWord: StopReason | null;
  stopReason: StopReason | null;
  /** Of the agent, beside a score. */
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

/** About 100 KB in the carried state. */
const keptCheckpoints = 400;

/** Of the steps whose token ids do not fit, the first so many are named: with one broken, a rollout is not to be trained on. */
const keptBroken = 1000;

export function initialState(input: RolloutInput, startedAt: string): RolloutState {
  const { from } = input;
  return {
    rolloutId: input.rolloutId,
    stage: 'create',
    startedAt,
    paused: false,
    inbox: [],
    attempt: 1,
    restores: 0,
    world: null,
    open: [],
    sandboxId: '',
    callsInAttempt: 0,
    readyAtMs: null,
    // A checkpoint is taken before its step, which the continuation makes anew.
    step: from ? from.step - 1 : 0,
    head: from?.trajectory ?? '',
    pending: [],
    spent: from ? { ...from.spent } : { tokens: 0, costUsd: 0, workedS: 0 },
    usage: { promptTokens: 0, completionTokens: 0, costUsd: input.model.price ? 0 : null },
    modelCalls: 0,
    modelCallsReissued: 0,
    toolCalls: 0,
    checkpoints: [],
    named: [],
    rollbacks: 0,
    replay: null,
    checkpointsAsked: 0,
    answered: { upTo: 0, checkpoint: null, refusal: null },
    attempts: [],
    verdicts: [],
    grades: [],
    tokens: null,
    restored: [],
    hostRestored: false,
    lastWord: null,
    stopReason: null,
    agentFailure: null,
    end: null,
  };
}

/** The world as it is now: a restore puts another one in its place. */
export function worldOf({ world }: RolloutState): World {
  if (world) return world;
  throw new Error('the rollout has no sandbox yet');
}

/** A new attempt starts the task anew, in a new world; what was spent stays spent. */
export function beginAttempt(state: RolloutState, input: RolloutInput): void {
  state.attempt += 1;
  state.restores = 0;
  state.world = null;
  state.callsInAttempt = 0;
  state.readyAtMs = null;
  state.stage = 'create';
  state.head = input.from?.trajectory ?? '';
  state.pending = [];
  state.checkpoints = [];
  state.named = [];
  state.replay = null;
  state.tokens = null;
  state.grades = [];
  state.lastWord = null;
  state.stopReason = null;
  state.agentFailure = null;
}

/** Charges working time. */
export function charge({ spent }: RolloutState, seconds: number): void {
  spent.workedS = toMs(spent.workedS + seconds);
}

/** Time is counted in whole milliseconds, however it is summed up. */
export const toMs = (seconds: number): number => Math.round(seconds * 1000) / 1000;

/** Counts a turn that came with token ids. */
export function noteIds(state: RolloutState, ids: 'extend' | 'broken'): void {
  state.tokens ??= { turns: 0, broken: [] };
  state.tokens.turns += 1;
  const { broken } = state.tokens;
  if (ids === 'broken' && broken.length < keptBroken) broken.push(state.step);
}

export function addCheckpoint(state: RolloutState, checkpoint: Checkpoint): void {
  state.checkpoints.push(checkpoint);
  if (state.checkpoints.length > keptCheckpoints) state.checkpoints.shift();
}

export function statusOf(state: RolloutState): RolloutStatus {
  return {
    rolloutId: state.rolloutId,
    stage: state.stage,
    paused: state.paused,
    attempt: state.attempt,
    step: state.step,
    sandboxId: state.sandboxId,
    modelCalls: state.modelCalls,
    toolCalls: state.toolCalls,
    trajectory: state.head,
    checkpoints: state.checkpoints,
    outcome: state.end?.outcome ?? null,
    reward: state.end?.reward ?? null,
  };
}
