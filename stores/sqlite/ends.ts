import type { EndFilter, Ledger, RolloutEnd } from '../ledger';
import type { Connection } from './connection';
import { numberOrNull, text, textOrNull } from './rows';
import type { Row } from './rows';

type Judged = RolloutEnd['judged'][number];

/** How rollouts ended, without their results, which may be large. */
export function endMethods(db: Connection): Pick<Ledger, 'ends'> {
  return {
    async ends(filter) {
      const { where, ids } = wanted(filter);
      const rows = db.all(endsSql(where), ...ids);
      const judged = judgedBy(db, JSON.stringify(rows.map((row) => row['rollout_id'])));
      return rows.map((row) => toEnd(row, judged.get(text(row['rollout_id'])) ?? []));
    },
  };
}

function wanted(filter: EndFilter): { where: string; ids: string[] } {
  if ('openContinuations' in filter) {
    return { where: 'result IS NULL AND parent_rollout_id IS NOT NULL', ids: [] };
  }
  const among = (column: string, ids: string[]) => ({
    where: `${column} IN (SELECT value FROM json_each(?))`,
    ids: [JSON.stringify(ids)],
  });
  if ('rolloutIds' in filter) return among('rollout_id', filter.rolloutIds);
  if ('batchIds' in filter) return among('batch_id', filter.batchIds);
  return among('parent_rollout_id', filter.parents);
}

const endsSql = (where: string): string => `
  SELECT rollout_id, batch_id, task_id, parent_rollout_id, ended_at, coalesce((
    SELECT reward FROM regrades
    WHERE regrades.rollout_id = rollouts.rollout_id AND counts = 1 ORDER BY n DESC LIMIT 1
  ), reward) AS reward
  FROM rollouts WHERE ${where} ORDER BY rollouts.rowid`;

const judgedSql = `
  SELECT rollout_id, version, verdict, 0 AS later FROM verdicts
    WHERE of = 'submission' AND rollout_id IN (SELECT value FROM json_each(?1))
  UNION ALL
  SELECT rollout_id, version, json_extract(verdict, '$.verdict'), 1 FROM regrades
    WHERE verdict IS NOT NULL AND rollout_id IN (SELECT value FROM json_each(?1))`;

function judgedBy(db: Connection, ids: string): Map<string, Judged[]> {
  const judged = new Map<string, Judged[]>();
  for (const row of db.all(judgedSql, ids)) {
    const rolloutId = text(row['rollout_id']);
    const verdict = {
      version: text(row['version']),
      verdict: text(row['verdict']) as Judged['verdict'], // only results and regrades are written there
      later: row['later'] === 1,
    };
    judged.set(rolloutId, [...(judged.get(rolloutId) ?? []), verdict]);
  }
  return judged;
}

const toEnd = (row: Row, judged: Judged[]): RolloutEnd => ({
  rolloutId: text(row['rollout_id']),
  batchId: text(row['batch_id']),
  taskId: text(row['task_id']),
  parentRolloutId: textOrNull(row['parent_rollout_id']),
  endedAt: textOrNull(row['ended_at']),
  reward: numberOrNull(row['reward']),
  judged,
});
