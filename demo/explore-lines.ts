import { formatReward, tableLines } from '../client/reports/table';
import { ratioToHold } from './explore-demo';
import type { ExploreReport } from './explore-demo';

export function exploreLines(report: ExploreReport, command: string): string[] {
  const { root, value, tree, independent, ratio } = report;
  const { wrong } = value;
  const steps = value.steps.map(({ step, did, value: worth, visits, drop }) => [
    String(step),
    did,
    worth.toFixed(3),
    String(visits),
    drop.toFixed(3),
    step === wrong.step ? '<- went wrong' : '',
  ]);
  const calls = [
    ['root', '1', shown(root.reward), String(root.modelCalls)],
    ['tree search', String(tree.rollouts), shown(tree.best), String(tree.modelCalls)],
    [
      'independent rollouts',
      String(independent.rollouts),
      shown(independent.best),
      String(independent.modelCalls),
    ],
    ['(value of each step)', '', '', String(value.modelCalls)],
  ];
  return [
    `${root.rolloutId} ended with reward ${shown(root.reward)}. What was being before each of its steps worth?`,
    '',
    ...tableLines(['step', 'did', 'value', 'visits', 'drop', ''], steps),
    '',
    `step ${wrong.step} (${wrong.did}) went wrong: the value falls from ${wrong.value.toFixed(3)} to ${(wrong.value - wrong.drop).toFixed(3)}`,
    '',
    `Once more from before step ${wrong.step}, until reward 1:`,
    '',
    ...tableLines(['', 'rollouts', 'best', 'model calls'], calls),
    '',
    `root and tree search need ${(ratio * 100).toFixed(0)} % of the model calls of independent rollouts (to hold: at most ${ratioToHold * 100} %)`,
    `sandboxes left ${report.sandboxesLeft}; versions kept to go on from ${report.versionsKept}`,
    '',
    'Where to look next:',
    `  ${command} show ${root.rolloutId}`,
    `  ${command} tree ${root.rolloutId}    (after ${command} up --detach)`,
  ];
}

/** Where the search did not do what it is for. */
export function exploreSurprises(report: ExploreReport): string[] {
  const { root, value, tree, independent, ratio } = report;
  return [
    ...(root.reward === null || root.reward >= 1
      ? [`the root has reward ${shown(root.reward)}, so there is nothing to search for`]
      : []),
    ...(value.wrong.drop > 0 ? [] : ['no step has lost anything']),
    ...(tree.best === 1 ? [] : [`the tree search came to ${shown(tree.best)}`]),
    ...(independent.best === 1
      ? []
      : [`${independent.rollouts} independent rollouts came to ${shown(independent.best)}`]),
    ...(ratio <= ratioToHold
      ? []
      : [`the search needs ${ratio.toFixed(2)} of the model calls of independent rollouts`]),
    ...(report.sandboxesLeft > 0 ? [`${report.sandboxesLeft} sandboxes are left`] : []),
  ];
}

const shown = (reward: number | null): string => (reward === null ? '-' : formatReward(reward));
