import { join } from 'node:path';
import type { BatchReport } from '../contracts/batch';
import { startScripted } from '../models/scripted/server';
import { tableLines } from '../client/reports/table';
import type { Settings } from '../client/settings';
import { rolloutTable } from './demo';
import { effectsLeftBy } from './effects';
import { killInTurn } from './kills';
import type { Kill } from './kills';
import { sandboxesLeft } from './sandboxes-left';
import type { DemoStack } from './stack';
import { newBatchId, runTaskset } from './taskset-run';

export type KillReport = BatchReport & {
  /** HTTP requests that the endpoint counted, beyond those the rollouts account for. */
  modelCallsRepeated: number;
  /** Requests whose answer died with their worker, and that were asked again. */
  modelCallsReissued: number;
  /** Effects inside the sandboxes, beyond one for each tool call. */
  toolEffectsRepeated: number;
  sandboxesLeft: number;
  kills: Kill[];
};

/**
 * Rollouts of which each is hit by a kill -9 of the worker or of the denv server at its worst moment. They run one after the
 * other, so that a kill hits one of them and what it costs can be told.
 */
export async function killDemo(
  stack: DemoStack,
  settings: Settings,
  example: string,
  say: (line: string) => void,
): Promise<KillReport> {
  const model = await startScripted({ file: join(example, 'kill-script.yaml') });
  try {
    const run = {
      file: join(example, 'kill-taskset.yaml'),
      batchId: newBatchId('kill'),
      baseUrl: `${model.address}/v1`,
      group: 1,
      concurrency: 1,
    };
    const killing = killInTurn(stack, model, run.batchId, say);
    killing.catch(() => undefined); // Told below; a batch that fails or is stopped says more.
    const report = await runTaskset(stack, settings, run, say);
    const kills = await killing;
    const sum = (of: (rollout: BatchReport['rollouts'][number]) => number): number =>
      report.rollouts.reduce((total, rollout) => total + of(rollout), 0);
    const modelCallsReissued = sum((rollout) => rollout.modelCallsReissued);
    const accounted = sum((rollout) => rollout.modelCalls) + modelCallsReissued;
    say('counting the effects inside the sandboxes');
    return {
      ...report,
      modelCallsRepeated: model.stats().requests - accounted,
      modelCallsReissued,
      toolEffectsRepeated: await repeatedEffects(stack, report),
      sandboxesLeft: await sandboxesLeft(stack, report.rollouts),
      kills,
    };
  } finally {
    await model.close();
  }
}

async function repeatedEffects({ rollouts }: DemoStack, report: BatchReport): Promise<number> {
  const ids = report.rollouts.map(({ rolloutId }) => rolloutId);
  let repeated = 0;
  for (const result of await rollouts.ledger.results(ids)) {
    // Every tool call of the kill taskset has one effect.
    repeated += Math.max(0, (await effectsLeftBy(rollouts, result)) - result.toolCalls);
  }
  return repeated;
}

/** Where the kills cost more than they may. */
export function killSurprises(report: KillReport): string[] {
  const inModelCalls = report.kills.filter(({ during }) => during === 'a model call').length;
  const wrong = report.rollouts
    .filter(({ reward }) => reward !== 1)
    .map(({ rolloutId, reward }) => `${rolloutId} has reward ${reward}`);
  for (const name of ['modelCallsRepeated', 'toolEffectsRepeated', 'sandboxesLeft'] as const) {
    if (report[name] !== 0) wrong.push(`${name} is ${report[name]}`);
  }
  if (report.modelCallsReissued > inModelCalls) {
    wrong.push(`modelCallsReissued is ${report.modelCallsReissued}, for ${inModelCalls} kills`);
  }
  return wrong;
}

export function killLines(report: KillReport, command: string): string[] {
  const kills = report.kills.map(({ killed, during, rolloutId, backS }) => [
    killed,
    during,
    rolloutId,
    `${backS.toFixed(1)} s`,
  ]);
  return [
    ...tableLines(['kill -9 of', 'during', 'of', 'up again after'], kills),
    '',
    ...rolloutTable(report.rollouts),
    '',
    `recorded model calls repeated  ${report.modelCallsRepeated}`,
    `model calls in flight reissued ${report.modelCallsReissued}`,
    `tool effects repeated          ${report.toolEffectsRepeated}`,
    `sandboxes left                 ${report.sandboxesLeft}`,
    '',
    'Where to look next:',
    ...report.kills.map(({ rolloutId }) => `  ${command} show ${rolloutId}`),
  ];
}
