import { join } from 'node:path';
import type { BatchReport, RolloutSummary } from '../contracts/batch';
import { startScripted } from '../models/scripted/server';
import { UserError } from '../client/errors';
import { awaitExploration, startExploration } from '../client/api/explore';
import { toSummary } from '../client/api/batch-report';
import { formatReward, tableLines } from '../client/reports/table';
import { cancelExploration } from '../client/api/rollouts';
import type { Settings } from '../client/settings';
import { sandboxesLeft } from './sandboxes-left';
import type { DemoStack } from './stack';
import { newBatchId, runTaskset } from './taskset-run';

export interface Exploration {
  exploreId: string;
  parentRolloutId: string;
  step: number;
  /** Mean reward of the continuations that were scored. */
  value: number | null;
  rollouts: RolloutSummary[];
}

export type DemoReport = BatchReport & { explore: Exploration; sandboxesLeft: number };

/** The reward of each task of the taskset with its script; null is unscored. A demo that differs has found a fault. */
const expected: Record<string, number | null> = {
  'restart-web': 1,
  'stuck-orders': 1,
  'full-disk': 1,
  'guess-carrier': 0,
  'tune-cache': 0.75,
  'linked-report': 0,
  'broken-verifier': null,
};
const exploredTask = 'restart-web';
const exploredStep = 3;

/** Runs the example's taskset twice over with the scripted model, and explores one rollout from the middle. */
export async function demo(
  stack: DemoStack,
  settings: Settings,
  example: string,
  say: (line: string) => void,
): Promise<DemoReport> {
  const { rollouts, stopping } = stack;
  const model = await startScripted({ file: join(example, 'script.yaml') });
  try {
    const run = {
      file: join(example, 'taskset.yaml'),
      batchId: newBatchId('demo'),
      baseUrl: `${model.address}/v1`,
      group: 2,
      concurrency: 4,
    };
    const report = await runTaskset(stack, settings, run, say);
    const parent = report.rollouts.find(({ task }) => task === exploredTask);
    if (!parent) throw new UserError(`${run.file} has no task ${exploredTask}`);
    say(`three continuations of ${parent.rolloutId}, from before its step ${exploredStep}`);
    const { exploreId } = await startExploration(rollouts, {
      rolloutId: parent.rolloutId,
      strategy: { name: 'flat', count: 3, depth: 1, branch: 1, every: 1, at: exploredStep },
      limits: { concurrency: 3, maxContinuations: 3, maxDepth: 1 },
      changes: {},
      seed: 0,
      priceFile: settings.paths.prices,
    });
    const cancel = (): void => void cancelExploration(rollouts, exploreId).catch(say);
    stopping.addEventListener('abort', cancel);
    const explored = await awaitExploration(rollouts, exploreId);
    const ids = explored.rollouts.map(({ rolloutId }) => rolloutId);
    const explore = {
      exploreId,
      parentRolloutId: parent.rolloutId,
      step: exploredStep,
      value: explored.value,
      rollouts: (await rollouts.ledger.results(ids)).map(toSummary),
    };
    return { ...report, explore, sandboxesLeft: await sandboxesLeft(stack, report.rollouts) };
  } finally {
    await model.close();
  }
}

/** Returns what differs from the expected outcome, a line each. */
export function surprises(report: DemoReport): string[] {
  const missing = Object.keys(expected)
    .filter((name) => report.rollouts.every(({ task }) => task !== name))
    .map((name) => `the report has no rollout of task ${name}`);
  const wrong = report.rollouts
    .filter(({ task, reward }) => reward !== expected[task])
    .map(({ rolloutId, reward }) => `${rolloutId} has reward ${reward}`);
  const rewards = report.explore.rollouts.map(({ reward }) => reward ?? 'none');
  if (rewards.toSorted((a, b) => Number(a) - Number(b)).join() !== '0,0.5,1') {
    wrong.push(`the continuations have rewards ${rewards.join(', ')}, and not 0, 0.5, 1`);
  }
  if (report.sandboxesLeft > 0) wrong.push(`${report.sandboxesLeft} sandboxes are left`);
  return [...missing, ...wrong];
}

export function demoLines(report: DemoReport, command: string): string[] {
  const { explore } = report;
  const mean = report.meanReward === null ? 'none' : formatReward(report.meanReward);
  const value = explore.value === null ? 'none' : formatReward(explore.value);
  const unscored = report.rollouts.find(({ outcome }) => outcome === 'unscored');
  const refused = report.rollouts.find(({ task }) => task === 'linked-report');
  return [
    ...rolloutTable(report.rollouts),
    '',
    `mean reward ${mean} over ${report.scored}/${report.declared} scored`,
    '',
    `continuations of ${explore.parentRolloutId} from before step ${explore.step}, value ${value}:`,
    ...rolloutTable(explore.rollouts),
    '',
    'Where to look next:',
    `  ${command} show ${explore.parentRolloutId}`,
    ...(refused ? [`  ${command} show ${refused.rolloutId}`] : []),
    ...(unscored ? [`  ${command} show ${unscored.rolloutId}`] : []),
    `  ${command} list --batch ${report.batchId}`,
    `  ${command} run examples/incident/taskset.yaml --agent oracle    (after ${command} up --detach)`,
  ];
}

export function rolloutTable(rollouts: RolloutSummary[]): string[] {
  const rows = rollouts.map((r) => [
    r.rolloutId.split('/').slice(2).join('/'),
    r.outcome,
    r.reward === null ? '-' : formatReward(r.reward),
    r.stopReason ?? '-',
    String(r.steps),
    r.sandboxId,
    r.failure
      ? `${r.failure.class}: ${r.failure.message.split('\n')[0]}`
      : Object.entries(r.rewards)
          .map(([name, value]) => `${name} ${formatReward(value)}`)
          .join(', '),
  ]);
  return tableLines(['rollout', 'outcome', 'reward', 'stop', 'steps', 'sandbox', ''], rows);
}
