import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { Ledger, RolloutRow } from '../../stores/ledger';
import type { Records } from '../api/connect';
import { currentResult } from '../../rollouts/verdicts';
import { UserError } from '../errors';
import type {
  TokenSegment,
  TrainingLeaf,
  TrainingLine,
  TrainingMessage,
  TrainingNode,
} from './schema';
import { tokenSegments } from './tokens';
import { replyOf, readTrainingTree } from './tree';
import type { EndedRow, TrainingLink } from './tree';
import { meanOf, rowsUnder } from '../api/tree';

export interface TrainingExport {
  lines: TrainingLine[];
  nodes: number;
  leaves: number;
  /** Rollouts that have no result yet, and are not in it. */
  running: number;
}

type Store = Pick<Records, 'ledger' | 'documents'>;

/**
 * Reads a rollout with all its continuations, or a whole batch, as the lines of a training file.
 * @throws UserError when there is neither of that name
 */
export async function exportTraining(
  { ledger, documents }: Store,
  id: string,
): Promise<TrainingExport> {
  const rows = await readRows(ledger, id);
  const ended = rows.flatMap((row): EndedRow[] => {
    const result = currentResult(row);
    return result ? [{ ...row, result }] : [];
  });
  const { links, endOf } = await readTrainingTree(documents, ended);
  const tokens = tokenSegments(links);
  const nodes = links.flatMap((link): TrainingLine[] => [
    toNode(link, tokens.get(link)),
    ...link.ends.map((row) => toLeaf(row, link, tokens)),
  ]);
  const stepless = ended.filter(({ rolloutId }) => endOf.get(rolloutId) === null);
  const lines = [...nodes, ...stepless.map((row) => toLeaf(row, null, tokens))];
  return {
    lines,
    nodes: links.length,
    leaves: ended.length,
    running: rows.length - ended.length,
  };
}

async function readRows(ledger: Ledger, id: string): Promise<RolloutRow[]> {
  if (await ledger.batch(id)) return ledger.rollouts({ batchId: id });
  const row = await ledger.rollout(id);
  if (!row) throw new UserError(`there is no rollout or batch ${id}; see: rollouts list`);
  return rowsUnder(row, await ledger.rollouts({ batchId: row.batchId }));
}

function toNode(link: TrainingLink, tokens: TokenSegment[] | undefined): TrainingNode {
  const value = valueOf(link);
  const reply = link.entries.find((entry) => entry.type === 'reply');
  return {
    node: link.id,
    parent: link.parent?.id ?? null,
    taskId: link.taskId,
    step: reply?.step ?? null,
    model: reply?.reply.model ?? null,
    visits: link.leaves.length,
    value,
    advantage: value === null ? null : value - (groupMean(link) ?? value),
    messages: link.entries.flatMap(toMessages),
    ...(tokens ? { tokens } : {}),
  };
}

function valueOf({ leaves }: TrainingLink): number | null {
  return meanOf(leaves.flatMap(({ result: { reward } }) => (reward === null ? [] : [reward])));
}

function groupMean({ parent }: TrainingLink): number | null {
  return meanOf((parent?.children ?? []).map(valueOf).filter((value) => value !== null));
}

function toLeaf(
  row: EndedRow,
  end: TrainingLink | null,
  tokens: Map<TrainingLink, TokenSegment[]>,
): TrainingLeaf {
  const { rolloutId, taskId, result, parentRolloutId, parentStep } = row;
  const from =
    parentRolloutId === null || parentStep === null
      ? null
      : { leaf: parentRolloutId, step: parentStep };
  return {
    leaf: rolloutId,
    node: end?.id ?? null,
    taskId,
    reward: result.reward,
    rewards: result.rewards,
    stopReason: result.stopReason,
    from,
    tokenIds: tokenIdsOf(end, tokens),
  };
}

function tokenIdsOf(
  end: TrainingLink | null,
  tokens: Map<TrainingLink, TokenSegment[]>,
): TrainingLeaf['tokenIds'] {
  const path: TrainingLink[] = [];
  for (let link = end; link; link = link.parent) if (replyOf(link)) path.push(link);
  const answered = path.filter((link) => tokens.get(link)?.some(({ of }) => of === 'answer'));
  if (answered.length === 0) return 'none';
  const restarts = path.some((link) => tokens.get(link)?.some((segment) => segment.restarts));
  return restarts || answered.length < path.length ? 'broken' : 'whole';
}

/** An entry as a message. A restored sandbox is none: for the agent nothing happened. */
function toMessages(entry: TrajectoryEntry): TrainingMessage[] {
  switch (entry.type) {
    case 'system':
      return [{ role: 'system', content: entry.text }];
    case 'prompt':
      if (entry.role === 'assistant') {
        return [{ role: 'assistant', content: entry.text, toolCalls: [] }];
      }
      return [
        { role: 'user', content: [{ type: 'text', text: entry.text }, ...(entry.images ?? [])] },
      ];
    case 'person':
      return [{ role: 'user', content: [{ type: 'text', text: entry.text }] }];
    case 'reply':
      return [{ role: 'assistant', content: entry.reply.text, toolCalls: entry.reply.toolCalls }];
    case 'observation': {
      const { toolCallId, name, isError, content } = entry.observation;
      return [{ role: 'tool', toolCallId, name, isError, content }];
    }
    case 'restored':
      return [];
  }
}
