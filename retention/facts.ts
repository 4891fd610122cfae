import type { Version } from '../contracts/denv';
import type { Ledger, RolloutEnd } from '../stores/ledger';
import type { Keep, KeepPolicies } from './keep-policies';
import type { OpenWork } from './open-work';
import type { RolloutFacts, VersionFacts } from './rules';

export interface FactParts {
  ledger: Pick<Ledger, 'ends' | 'results'>;
  work: OpenWork;
  keeps: KeepPolicies;
}

/** Questions to Temporal at once. */
const atOnce = 20;

/**
 * Gathers what must be known of versions before anything is done about them. Every question must be answered: one that is not is an error,
 * and then nothing is known.
 */
export async function gatherFacts(parts: FactParts, versions: Version[]): Promise<VersionFacts[]> {
  if (versions.length === 0) return [];
  const ids = [...new Set(versions.map(rolloutOf))];
  const ends = new Map(
    (await parts.ledger.ends({ rolloutIds: ids })).map((end) => [end.rolloutId, end]),
  );
  const states = await statesOf(parts.work, [...ends.values()]);
  const needed = await neededRollouts(parts);
  const beingJudged = await parts.work.regraded();
  const keeps = new Map<string, Keep>();
  for (const end of ends.values()) keeps.set(end.rolloutId, await parts.keeps.of(end));
  const bests = await bestsOf(parts.ledger, [...ends.values()], keeps);

  const facts = new Map<string, RolloutFacts>();
  for (const [id, end] of ends) {
    facts.set(id, {
      state: states.get(id) ?? 'closed',
      endedMs: end.endedAt ? Date.parse(end.endedAt) : newestOf(versions, id),
      keep: keeps.get(id) ?? null,
      neededBy: needed.get(id) ?? null,
      judged: end.judged,
      best: bests.get(id) ?? null,
    });
  }
  const shared = await sharedBy(parts.ledger, facts);
  return versions.map((version) => ({
    version,
    rollout: facts.get(rolloutOf(version)) ?? null,
    beingJudged: beingJudged.has(version.id),
    sharedBy: shared.get(version.id) ?? null,
  }));
}

const rolloutOf = ({ labels }: Version): string => labels['rolloutId'] ?? '';

const newestOf = (versions: Version[], rolloutId: string): number =>
  Math.max(
    ...versions
      .filter((version) => rolloutOf(version) === rolloutId)
      .map(({ createdAt }) => Date.parse(createdAt)),
  );

/** Of those without a result: what Temporal says. */
async function statesOf(
  work: OpenWork,
  ends: RolloutEnd[],
): Promise<Map<string, RolloutFacts['state']>> {
  const open = ends.filter(({ endedAt }) => endedAt === null);
  const states = new Map<string, RolloutFacts['state']>();
  for (let at = 0; at < open.length; at += atOnce) {
    const some = open.slice(at, at + atOnce).map(async ({ rolloutId }) => {
      const state = await work.stateOf(rolloutId);
      const known = state === 'GONE' ? 'unknown' : 'closed';
      states.set(rolloutId, state === 'RUNNING' ? 'live' : known);
    });
    await Promise.all(some);
  }
  return states;
}

/**
 * Rollouts from whose steps something at work goes on, or may: all ancestors of a continuation that runs, and the whole tree of an
 * exploration that does. A step that changed nothing has an ancestor's version, so ancestors count however far up.
 */
async function neededRollouts({ ledger, work }: FactParts): Promise<Map<string, string>> {
  const needed = new Map<string, string>();
  const open = await ledger.ends({ openContinuations: true });
  const states = await statesOf(work, open);
  for (const { rolloutId, parentRolloutId } of open) {
    if (states.get(rolloutId) !== 'live' || parentRolloutId === null) continue;
    await addAncestors(ledger, parentRolloutId, `${rolloutId} goes on from it`, needed);
  }
  for (const { exploreId, rootId } of await work.explorations()) {
    const why = `exploration ${exploreId} is under way`;
    await addAncestors(ledger, rootId, why, needed);
    let parents = [rootId];
    while (parents.length > 0) {
      const children = await ledger.ends({ parents });
      parents = children.map(({ rolloutId }) => rolloutId);
      for (const id of parents) needed.set(id, why);
    }
  }
  return needed;
}

async function addAncestors(
  ledger: FactParts['ledger'],
  rolloutId: string,
  why: string,
  needed: Map<string, string>,
): Promise<void> {
  let at: string | null = rolloutId;
  while (at !== null) {
    needed.set(at, why);
    const [end]: RolloutEnd[] = await ledger.ends({ rolloutIds: [at] });
    at = end?.parentRolloutId ?? null;
  }
}

/** Of rollouts that are kept if they are the best: whether they are, among all of their batch and task. Left out while one runs. */
async function bestsOf(
  ledger: FactParts['ledger'],
  ends: RolloutEnd[],
  keeps: Map<string, Keep>,
): Promise<Map<string, boolean>> {
  const asked = ends.filter(({ rolloutId }) => keeps.get(rolloutId) === 'best');
  const batchIds = [...new Set(asked.map(({ batchId }) => batchId))];
  const all = batchIds.length === 0 ? [] : await ledger.ends({ batchIds });
  const bests = new Map<string, boolean>();
  for (const { rolloutId, batchId, taskId } of asked) {
    const group = all.filter((end) => end.batchId === batchId && end.taskId === taskId);
    if (group.some(({ endedAt }) => endedAt === null)) continue;
    const most = Math.max(...group.map(({ reward }) => reward ?? -Infinity));
    // Of several that are as good, the first.
    const best = group.find(({ reward }) => reward !== null && reward === most);
    bests.set(rolloutId, best?.rolloutId === rolloutId);
  }
  return bests;
}

/** Versions that rollouts which keep all of theirs have as a checkpoint. */
async function sharedBy(
  ledger: FactParts['ledger'],
  facts: Map<string, RolloutFacts>,
): Promise<Map<string, string>> {
  const all = [...facts].filter(([, { keep, best }]) => keep === 'all' || best === true);
  const shared = new Map<string, string>();
  for (const [id] of all) {
    const [result] = await ledger.results([id]);
    for (const { version } of result?.checkpoints ?? []) shared.set(version, id);
  }
  return shared;
}
