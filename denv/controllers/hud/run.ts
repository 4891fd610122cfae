import { z } from 'zod';
import {
  HudGradeFrame,
  HudGradeParams,
  type HudGradeResult,
  HudStartParams,
} from '../../../contracts/denv';
import { toNumber } from '../../../json/lossless';
import { DenvError } from '../../errors';
import type { ControllerCall } from '../controller';
import { unlessAborted } from '../unless-aborted';
import { listCapabilities, offers } from './capabilities';
import { ChannelError, type HudChannel, isObject, type RequestHooks } from './channel';
import { HudFault, requireResult } from './faults';
import type { HudLink } from './link';
import { checkTask, fetchTasks, type HudTask } from './tasks';

/**
 * How far the one task of a session is. `none`: nothing was started. `started`: its start has succeeded, it was not graded. `lost`: it
 * may run, but must not be graded. `over`: graded, cancelled or failed.
 */
export type TaskState = 'none' | 'started' | 'lost' | 'over';

type GradeFrame = HudGradeResult['grade'];

/**
 * The task of a session, from its start to its one grade. HUD would let a session without a task adopt whichever is parked and
 * hand out its reward, so nothing is graded here but what was started here.
 */
export class HudRun {
  private tasks: HudTask[] | null = null;
  /** Set by a call of its own; calls that are out then end with it. */
  cancelled = false;

  constructor(
    private readonly link: HudLink,
    private state: TaskState,
  ) {}

  /** Whether the environment may hold a task of ours. */
  get atStake(): boolean {
    return this.state === 'started' || this.state === 'lost';
  }

  async list(limit: AbortSignal): Promise<HudTask[]> {
    if (this.tasks) return this.tasks;
    const channel = await this.link.ready(limit, this.state === 'started');
    this.tasks = await unlessAborted(fetchTasks(channel), limit);
    return this.tasks;
  }

  /** @throws HudFault, ChannelError; DenvError invalid_request, capability_missing, controller_failed */
  async start(call: ControllerCall, limit: AbortSignal): Promise<Record<string, unknown>> {
    const params = read(HudStartParams, call);
    if (this.state !== 'none') {
      throw invalid('this environment has been given its task: there is one in its whole life');
    }
    const channel = await this.link.ready(limit, false);
    this.checkEnvironment(params);
    checkTask(await this.list(limit), params.id, params.args);
    const what = `the start of task "${params.id}"`;
    this.state = 'lost';
    const { id, args } = params;
    const reply = await this.settle('none', () =>
      this.link.run(channel, 'tasks.start', { id, args }, limit, call),
    );
    if ('error' in reply) this.state = 'over';
    const frame = requireResult(reply, 'start', what);
    await this.checkFrame(frame, what);
    this.state = 'started';
    return frame;
  }

  /** @throws HudFault, ChannelError; DenvError invalid_request when there is nothing to grade, controller_failed */
  async grade(call: ControllerCall, limit: AbortSignal): Promise<HudGradeResult> {
    const { answer, verifier } = read(HudGradeParams, call);
    this.checkGradable();
    const channel = await this.link.ready(limit, true);
    if (verifier) checkTask(await this.list(limit), verifier.id, verifier.args);
    this.checkGradable();
    this.state = 'over';
    const what = 'the grading of the task';
    const grading = this.settle('started', () =>
      this.gradeOnce(channel, answer ?? null, limit, what, call),
    );
    if (!verifier) return { grade: await grading, verifier: null };
    const grade = await grading.catch((error: unknown) => failedGrade(error, answer));
    return { grade, verifier: await this.verify(channel, verifier, grade, limit) };
  }

  /** Ends the task, also one that is being started or graded: that call then ends as cancelled. */
  async cancel(): Promise<void> {
    if (this.state === 'none') return;
    this.cancelled = true;
    await this.link.cancelTask();
    this.state = 'over';
  }

  /** Starts and grades the verifier, whose answer is the whole grade of the task before it, as in HUD. */
  private async verify(
    channel: HudChannel,
    { id, args }: { id: string; args: Record<string, unknown> },
    grade: GradeFrame,
    limit: AbortSignal,
  ): Promise<GradeFrame> {
    const what = `verifier "${id}"`;
    this.state = 'lost';
    try {
      const reply = await this.link.run(channel, 'tasks.start', { id, args }, limit);
      requireResult(reply, 'start', `the start of ${what}`);
      const judged = await this.gradeOnce(channel, grade, limit, `the grading of ${what}`);
      this.state = 'over';
      return judged;
    } catch (error) {
      if (!(error instanceof HudFault)) throw error;
      this.state = 'over';
      throw new HudFault(error.kind, error.message, { grade });
    }
  }

  private async gradeOnce(
    channel: HudChannel,
    answer: unknown,
    limit: AbortSignal,
    what: string,
    hooks: RequestHooks = {},
  ): Promise<GradeFrame> {
    const reply = await this.link.run(channel, 'tasks.grade', { answer }, limit, hooks);
    const frame = requireResult(reply, 'grade', what);
    const score = toNumber(frame['score']);
    if (score === null || !Number.isFinite(score)) {
      throw new HudFault('protocol', `${what} gave no finite score`);
    }
    return HudGradeFrame.parse({ ...frame, score });
  }

  /** Goes back to `before` only when nothing has left; a call that broke, timed out or was cancelled stays as it is. */
  private async settle<T>(before: TaskState, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof ChannelError && !error.sent) this.state = before;
      throw error;
    }
  }

  private checkEnvironment(params: z.output<typeof HudStartParams>): void {
    const { environment, bindings } = this.link.session;
    if (params.env !== undefined && params.env !== environment.name) {
      throw invalid(
        `the task is for environment "${params.env}", and this one is "${environment.name}"`,
      );
    }
    const missing = params.capabilities.filter((wanted) => !offers(bindings, wanted));
    if (missing.length === 0) return;
    throw new DenvError(
      'capability_missing',
      `environment "${environment.name}" has no capability ${missing.join(', ')}; there is ${listCapabilities(bindings)}`,
    );
  }

  /** A task that cannot be worked on as it was started is cancelled. @throws HudFault */
  private async checkFrame(frame: Record<string, unknown>, what: string): Promise<void> {
    const fault = this.faultInFrame(frame, what);
    if (!fault) return;
    await this.link.cancelTask();
    this.state = 'over';
    throw fault;
  }

  private faultInFrame(frame: Record<string, unknown>, what: string): HudFault | null {
    if (!('prompt' in frame)) return new HudFault('protocol', `${what} gave no prompt`);
    const episode = frame['bindings'] ?? {};
    if (!isObject(episode)) {
      return new HudFault('protocol', `${what} gave bindings that are no object`);
    }
    const { bindings } = this.link.session;
    const unknown = Object.keys(episode).filter((name) => !bindings.some((b) => b.name === name));
    if (unknown.length === 0) return null;
    return new HudFault(
      'bad_task',
      `${what} binds ${unknown.join(', ')}, which the environment does not announce; there is ${listCapabilities(bindings)}`,
    );
  }

  private checkGradable(): void {
    switch (this.state) {
      case 'started':
        return;
      case 'none':
        throw invalid('no task was started in this environment: there is nothing to grade');
      case 'lost':
        throw invalid('the start of the task was lost: it cannot be graded');
      case 'over':
        throw invalid('the task is over: it is graded once, and no other is started after it');
    }
  }
}

/** The frame that HUD makes of a grade that failed: where there is a verifier, it is told. */
function failedGrade(error: unknown, answer: unknown): GradeFrame {
  if (!(error instanceof HudFault)) throw error;
  return { score: 0, answer: answer ?? null, content: error.message, isError: true };
}

function read<T extends z.ZodType>(schema: T, call: ControllerCall): z.output<T> {
  const parsed = schema.safeParse(call.params);
  if (parsed.success) return parsed.data;
  throw invalid(`params of ${call.method}: ${z.prettifyError(parsed.error)}`);
}

const invalid = (message: string) => new DenvError('invalid_request', message);
