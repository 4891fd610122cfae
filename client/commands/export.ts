import { rename, rm, writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { openRecords } from '../api/connect';
import type { Context } from '../context';
import { reasonOf, UserError } from '../errors';
import { exportTraining } from '../training/export';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  training: { takes: '<file>', help: 'the JSONL file to write; - for stdout', required: true },
} satisfies OptionTable;

type ExportOptions = OptionValues<typeof options>;

export function addExport(program: Command, context: Context): void {
  const command = program
    .command('export')
    .description('write rollouts for training, with the steps that they share written once')
    .argument('<rollout|batch>', 'id of a rollout, with its continuations, or name of a batch');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts export rollout/nightly/maze/0 --training maze.jsonl
  rollouts export nightly --training - | gzip > nightly.jsonl.gz

Each line is a node or a leaf. A node stands before the lines that name it.
  {"node", "parent", "taskId", "step", "model", "visits", "value", "advantage", "messages", "tokens"}
      A step of one or several rollouts: its reply and the observations of its calls; or the start of the task, where
      parent and step are null. Repeats of a task share their first node.
      value: mean reward of the scored leaves below; advantage: the value less the mean value of all nodes with the same
      parent. Both are null where nothing below was scored.
      tokens, where the endpoint gave ids: segments {"of": "prompt" | "answer", "ids", "logprobs"}; only answers are the
      model's own. A segment with "restarts": true does not continue the one before it: it is the whole prompt again.
  {"leaf", "node", "taskId", "reward", "rewards", "stopReason", "from", "tokenIds"}
      An ended rollout and its last node; reward is null when it is unscored. tokenIds: whole, broken (they restart, or some
      are missing) or none. from: the rollout and step that it continues.
A conversation is the messages, or the ids, of the nodes from the first to the leaf's own. Rollouts that still run are left
out and counted on stderr. Works without a running stack.

Exit codes: 0, 2 bad usage, 1 anything else.`,
    )
    .action((id: string, given: ExportOptions) => exportTo(context, id, given));
}

async function exportTo(context: Context, id: string, { training }: ExportOptions): Promise<void> {
  const records = await openRecords(context.settings);
  try {
    const { lines, nodes, leaves, running } = await exportTraining(records, id);
    if (training === '-') for (const line of lines) context.print(JSON.stringify(line));
    else await writeWhole(training, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const left = running === 0 ? '' : `; ${running} still run and are left out`;
    context.note(`wrote ${leaves} rollouts in ${nodes} nodes${left}`);
  } finally {
    await records.close();
  }
}

/** Writes a file that has its name only once it is whole. @throws UserError */
async function writeWhole(file: string, data: string): Promise<void> {
  const part = `${file}.part`;
  try {
    await writeFile(part, data);
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw new UserError(`${file} cannot be written: ${reasonOf(error)}`);
  }
}
