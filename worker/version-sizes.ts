import type { Version } from '../contracts/denv';
import type { DenvClient } from '../denv/client';
import { DenvError } from '../denv/errors';

/** Puts beside versions what each alone holds on disk. */
export type Measure = (versions: Version[]) => Promise<Version[]>;

/** Where no disk budget is set, nobody needs to know. */
export const unmeasured: Measure = (versions) => Promise.resolve(versions);

/**
 * Measuring reads through a whole tree, so each version is measured once, at most `mostAtOnce` in a call; until then it counts as
 * empty. When one is gone, those of its sandbox are measured anew: what they shared with it may be theirs alone now.
 */
export function measureOnce(
  denv: Pick<DenvClient, 'getVersion'>,
  mostAtOnce: number = Infinity,
): Measure {
  const known = new Map<string, { sandbox: string | null; bytes: number | null }>();
  return async (versions) => {
    forget(known, versions);
    let asked = 0;
    for (const { id, sandbox } of versions) {
      if (known.has(id)) continue;
      if (asked === mostAtOnce) break;
      asked += 1;
      known.set(id, { sandbox, bytes: await bytesOf(denv, id) });
    }
    return versions.map((version) => ({ ...version, bytes: known.get(version.id)?.bytes ?? null }));
  };
}

function forget(
  known: Map<string, { sandbox: string | null; bytes: number | null }>,
  versions: Version[],
): void {
  const there = new Set(versions.map(({ id }) => id));
  const changed = new Set<string | null>();
  for (const [id, { sandbox }] of known) if (!there.has(id)) changed.add(sandbox);
  for (const [id, { sandbox }] of known)
    if (!there.has(id) || changed.has(sandbox)) known.delete(id);
}

/** One that has gone meanwhile holds nothing. */
async function bytesOf(denv: Pick<DenvClient, 'getVersion'>, id: string): Promise<number | null> {
  try {
    return (await denv.getVersion(id, { size: true })).bytes;
  } catch (error) {
    if (error instanceof DenvError && error.code === 'version_not_found') return 0;
    throw error;
  }
}
