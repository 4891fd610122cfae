import { z } from 'zod';
import { PackedTask } from '../contracts/task';
import { ContentPart, ToolCall } from '../contracts/trajectory';
import type { Observation, TrajectoryEntry } from '../contracts/trajectory';
import { unknownText } from './calls';
import { checkpointTool, rollbackTool } from './checkpoint-tools';
import { FoundError } from './support/failures';
import { activity, held } from './support/heartbeat';
import { findFirstReplayedStep } from '../rollouts/continuation/start';
import { readEntries } from '../rollouts/trajectory/chain';
import { showReply, toText } from '../rollouts/trajectory/observations';
import type { Shown } from '../rollouts/trajectory/observations';
import type { Parts } from './support/parts';
import { withEvidence } from './support/stop-evidence';
import { notMade } from './trajectory';

/** Tool calls that were really made, in their order, with the observation of each. Kept as one blob. */
const ReplayPlan = z.object({
  calls: z.array(
    z.object({
      step: z.number(),
      call: ToolCall,
      isError: z.boolean(),
      content: z.array(ContentPart),
      full: z.string().nullable(),
    }),
  ),
});
type PlannedCall = z.infer<typeof ReplayPlan>['calls'][number];

export interface PlanReplayInput {
  taskRef: string;
  parentRolloutId: string;
  /** The version that the sandbox was started from; empty where it was created for the task, so that all calls are made again. */
  version: string;
  /** Head of the transcript; its calls before `step` are made again. */
  head: string;
  step: number;
}

export interface ReplayCallsInput {
  /** The start of each call's key; the call's place in the plan follows it. */
  callsKey: string;
  sandboxId: string;
  leaseS: number;
  planRef: string;
  from: number;
  count: number;
  /** Of one call. */
  timeoutS: number;
}

export function replayActivities(parts: Parts) {
  const { documents } = parts;

  return {
    /** Plans which calls of a transcript a replay makes. Idempotent. */
    planReplay: activity(
      async (input: PlanReplayInput): Promise<{ planRef: string; calls: number }> => {
        const { task } = await documents.get(PackedTask, input.taskRef);
        const { parentRolloutId, version } = input;
        const first = await findFirstReplayedStep(documents, parentRolloutId, version);
        const entries = (await readEntries(documents, input.head)).filter(
          (entry) => 'step' in entry && entry.step >= first && entry.step < input.step,
        );
        const calls = toPlan(entries, task.checkpointTools === true);
        return { planRef: await documents.put({ calls }), calls: calls.length };
      },
    ),

    /**
     * Makes recorded tool calls again, in their order, each under its own key, and compares the answers. No model is asked.
     * Idempotent: a retry finds the outcomes of those that were made.
     * @throws ReplayDiverged (final) an observation is not what it was: the message says which and how; as `makeToolCall`
     */
    replayCalls: activity(async (input: ReplayCallsInput, signal: AbortSignal): Promise<void> => {
      const { calls } = await documents.get(ReplayPlan, input.planRef);
      for (let index = input.from; index < input.from + input.count; index += 1) {
        signal.throwIfAborted();
        const planned = calls[index];
        if (planned) await replayCall(parts, input, { planned, index }, signal);
      }
    }),
  };
}

/**
 * The calls that reached the sandbox and still have their effect in it: none that was never made and, where the agent could roll its
 * sandbox back, none that it rolled back.
 */
function toPlan(entries: TrajectoryEntry[], ownTools: boolean): PlannedCall[] {
  const calls: PlannedCall[] = [];
  const named = new Map<unknown, number>();
  let asked: ToolCall[] = [];
  for (const entry of entries) {
    if (entry.type === 'reply') asked = entry.reply.toolCalls.slice();
    if (entry.type !== 'observation') continue;
    const { observation, step } = entry;
    const place = asked.findIndex(({ id }) => id === observation.toolCallId);
    const call = asked[place];
    if (!call || call.arguments === null || wasNotMade(observation)) continue;
    // Two calls of a reply may have the same id.
    asked.splice(place, 1);
    const ours = ownTools && (call.name === checkpointTool || call.name === rollbackTool);
    if (!ours) {
      const { isError, content, full } = observation;
      calls.push({ step, call, isError, content, full: full?.ref ?? null });
    } else if (!observation.isError) {
      const { name } = call.arguments;
      if (call.name === checkpointTool) named.set(name, calls.length);
      else calls.length = Math.min(calls.length, named.get(name) ?? calls.length);
    }
  }
  return calls;
}

const wasNotMade = ({ isError, content }: Observation): boolean =>
  isError && toText(content).startsWith(notMade);

async function replayCall(
  { denv, blobs }: Parts,
  input: ReplayCallsInput,
  { planned, index }: { planned: PlannedCall; index: number },
  signal: AbortSignal,
): Promise<void> {
  const { call, step } = planned;
  const what = `step ${step}, call ${call.name}`;
  if (toText(planned.content) === unknownText) {
    throw new FoundError(
      'ReplayDiverged',
      `${what}: its outcome was unknown when it was recorded, so there is nothing to compare with`,
    );
  }
  const { sandboxId, timeoutS } = input;
  const key = `${input.callsKey}/${index}`;
  const params = { name: call.name, arguments: call.arguments };
  const reply = await withEvidence(denv, sandboxId, () =>
    held(denv, input, key, () =>
      denv.call(sandboxId, { method: 'tools/call', params, timeoutS }, { key, signal }),
    ),
  );
  const difference = differenceOf(planned, await showReply(blobs, reply, timeoutS));
  if (difference) {
    throw new FoundError('ReplayDiverged', `${what} was answered differently: ${difference}`);
  }
}

/** Says in a few words how two answers differ; null where they do not. */
function differenceOf(recorded: PlannedCall, now: Shown): string | null {
  if (recorded.isError !== now.isError) {
    const kind = (isError: boolean): string => (isError ? 'an error' : 'no error');
    return `${kind(recorded.isError)} then (${cut(toText(recorded.content))}), ${kind(now.isError)} now (${cut(toText(now.content))})`;
  }
  const [before, after] = [toText(recorded.content).split('\n'), toText(now.content).split('\n')];
  const lines = Math.max(before.length, after.length);
  for (let line = 0; line < lines; line += 1) {
    if (before[line] === after[line]) continue;
    return `line ${line + 1} was ${quoted(before[line])}, and is ${quoted(after[line])}`;
  }
  const same = recorded.full === (now.full?.ref ?? null);
  return same ? null : 'a part that is not shown differs';
}

const quoted = (line: string | undefined): string =>
  line === undefined ? 'not there' : JSON.stringify(cut(line));

const cut = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text);
