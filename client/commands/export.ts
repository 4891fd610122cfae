import { rename, rm, writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { openRecords } from '../api/connect';
import type { Context } from '../context';
import { reasonOf, UserError } from '../errors';
import { exportTraining } from '../training/export';

interface ExportOptions {
  training: string;
}

export function addExport(program: Command, context: Context): void {
  program
    .command('export')
    .description('write rollouts for training, what they have in common once')
    .argument('<rollout|batch>', 'id of a rollout, with all that came of it, or name of a batch')
    .requiredOption('--training <file>', 'the JSONL file to write; - for stdout')
    .addHelpText(
      'after',
      `
Examples:
  rollouts export rollout/nightly/maze/0 --training maze.jsonl
  rollouts export nightly --training - | gzip > nightly.jsonl.gz

A line is a node or a leaf, each after what it names.
  {"node", "parent", "taskId", "step", "model", "visits", "value", "advantage", "messages", "tokens"}
      A step of one or several rollouts: its reply and what came of its calls, or how the task begins (parent null, step null).
      value: mean reward of the scored leaves below; advantage: the value less the mean of the values of all nodes with its
      parent; null where nothing below was scored. Repeats of a task have their first node in common.
      tokens, where the endpoint gave ids: segments {"of": "prompt" | "answer", "ids", "logprobs"}; only answers are the model's
      own. A segment with "restarts": true does not go on from what is before it: it is the whole prompt again.
  {"leaf", "node", "taskId", "reward", "rewards", "stopReason", "from", "tokenIds"}
      An ended rollout and where it ends; reward null when it is unscored. tokenIds: whole, broken (they restart, or some are not
      there) or none. from: the rollout and step that it goes on from.
A conversation is the messages, or the ids, of the nodes from the first to the leaf's own. Rollouts that still run are left out,
and counted. Works without a running stack.

Exit codes: 0, 2 bad usage, 1 anything else.`,
    )
    .action((id: string, options: ExportOptions) => exportTo(context, id, options));
}

async function exportTo(context: Context, id: string, { training }: ExportOptions): Promise<void> {
  const records = await openRecords(context.settings);
  try {
    const { lines, nodes, leaves, running } = await exportTraining(records, id);
    if (training === '-') for (const line of lines) context.print(JSON.stringify(line));
    else await writeWhole(training, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const left = running === 0 ? '' : `; ${running} still run and are not in it`;
    context.note(`${leaves} rollouts in ${nodes} nodes${left}`);
  } finally {
    await records.close();
  }
}

/** Under its name once it is whole. */
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
