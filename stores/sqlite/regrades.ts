import type { Ledger, RegradeRow, RolloutRow } from '../ledger';
import type { Connection } from './connection';
import { toRegrade } from './rows';

/** `current`: the newest of its rollout that has a verdict. */
const columns = `*, counts = 1 AND n = (
  SELECT max(n) FROM regrades AS other WHERE other.rollout_id = regrades.rollout_id AND counts = 1
) AS current`;

/** A condition on a row of `rollouts`. */
export const neverRegraded =
  'NOT EXISTS (SELECT 1 FROM regrades WHERE regrades.rollout_id = rollouts.rollout_id AND counts = 1)';

/** Verdicts that were given after a rollout had ended. */
export function regradeMethods(db: Connection): Pick<Ledger, 'recordRegrade' | 'regrades'> {
  return {
    async recordRegrade(regrade) {
      const { regradeId, rolloutId, verdict } = regrade;
      db.insert('regrades', {
        regrade_id: regradeId,
        rollout_id: rolloutId,
        version: regrade.version,
        verdict: verdict === null ? null : JSON.stringify(verdict),
        counts: verdict !== null && verdict.verdict !== 'none' && regrade.reward !== null ? 1 : 0,
        reward: regrade.reward,
        rewards: JSON.stringify(regrade.rewards),
        why: regrade.why,
        verifier_digest: regrade.verifierDigest,
        at: regrade.at,
      });
      const row = db.one(
        `SELECT ${columns} FROM regrades WHERE regrade_id = ? AND rollout_id = ?`,
        regradeId,
        rolloutId,
      );
      if (row === undefined) throw new Error(`${regradeId} of ${rolloutId} was not recorded`);
      return toRegrade(row);
    },

    async regrades(of) {
      const [column, id] =
        'regradeId' in of ? ['regrade_id', of.regradeId] : ['rollout_id', of.rolloutId];
      return db
        .all(`SELECT ${columns} FROM regrades WHERE ${column} = ? ORDER BY n`, id)
        .map(toRegrade);
    },
  };
}

/** Puts beside each rollout the later verdict that counts now. */
export function withRegraded(db: Connection, rollouts: RolloutRow[]): RolloutRow[] {
  const sql = `SELECT * FROM (SELECT ${columns} FROM regrades
    WHERE rollout_id IN (SELECT value FROM json_each(?))) WHERE current = 1`;
  const ids = JSON.stringify(rollouts.map(({ rolloutId }) => rolloutId));
  const current = new Map<string, RegradeRow>();
  for (const row of db.all(sql, ids)) {
    const regraded = toRegrade(row);
    current.set(regraded.rolloutId, regraded);
  }
  return rollouts.map((rollout) => {
    const regraded = current.get(rollout.rolloutId);
    return regraded ? { ...rollout, regraded } : rollout;
  });
}
