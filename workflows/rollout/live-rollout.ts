import type { Checkpoint, RolloutInput, RolloutStatus } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { freshAttempt, toMs } from './state';
import type { AgentSandbox, RolloutEnding, RolloutState } from './state';

/** About 100 KB in the carried state. */
const keptCheckpoints = 400;

/** At most this many steps with inconsistent token ids are listed; one is enough to exclude a rollout from training. */
const keptBroken = 1000;

const defaultLeaseS = 300;

/**
 * One rollout while it is at work: what it was asked to do, and what it knows so far. Every stage is a function of it. `state` is
 * plain data, because the next run is given it when this one continues as new.
 */
export class Rollout {
  constructor(
    readonly input: RolloutInput,
    readonly state: RolloutState,
  ) {}

  /** The sandbox as it is now: a restore puts another one in its place. */
  get sandbox(): AgentSandbox {
    if (this.state.world) return this.state.world;
    throw new Error('the rollout has no sandbox yet');
  }

  /** How long a sandbox lives that nobody renews. */
  get leaseS(): number {
    return this.input.leaseS ?? defaultLeaseS;
  }

  /** A person may hold the agent, speak to it or ask for a checkpoint, because its work is not over. */
  get isAtWork(): boolean {
    const { stage } = this.state;
    return stage === 'create' || stage === 'ready' || stage === 'setup' || stage === 'loop';
  }

  beginAttempt(): void {
    this.state.attempt += 1;
    Object.assign(this.state, freshAttempt(this.input));
  }

  endAttempt(failure: RolloutEnding['failure']): void {
    const { attempt, stopReason, world, attempts } = this.state;
    attempts.push({ attempt, sandboxId: world?.sandboxId ?? '', failure, stopReason });
  }

  /** Charges working time. */
  charge(seconds: number): void {
    const { spent } = this.state;
    spent.workedS = toMs(spent.workedS + seconds);
  }

  /** Counts a turn that came with token ids. */
  countTokenIds(ids: 'extend' | 'broken'): void {
    this.state.tokens ??= { turns: 0, broken: [] };
    this.state.tokens.turns += 1;
    const { broken } = this.state.tokens;
    if (ids === 'broken' && broken.length < keptBroken) broken.push(this.state.step);
  }

  addCheckpoint(checkpoint: Checkpoint): void {
    const { checkpoints } = this.state;
    checkpoints.push(checkpoint);
    if (checkpoints.length > keptCheckpoints) checkpoints.shift();
  }

  /** Writes what is pending to the trajectory. */
  async writePending(): Promise<void> {
    const { state } = this;
    if (state.pending.length === 0) return;
    const { head } = await activitiesFor('record', 'write trajectory').appendTrajectory({
      head: state.head,
      pending: state.pending,
    });
    state.head = head;
    state.pending = [];
  }

  status(): RolloutStatus {
    const { state } = this;
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
}
