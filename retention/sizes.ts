import type { Version } from '../contracts/denv';
import type { DenvClient } from '../denv/client';
import { DenvError } from '../denv/errors';

/** Puts beside versions what each alone holds on disk. */
export type Measure = (versions: Version[]) => Promise<Version[]>;

/** Where no disk budget is set, nobody needs to know. */
export const unmeasured: Measure = (versions) => Promise.resolve(versions);

/**
 * Measuring reads through a whole tree, so at most `mostAtOnce` are measured in a call: first those that never were, which count as
 * empty until then, and then those that were so the longest ago. What a version shared with another, or with a sandbox, is its
 * own once that is gone.
 */
export function measureInTurn(
  denv: Pick<DenvClient, 'getVersion'>,
  mostAtOnce: number = Infinity,
): Measure {
  /** By version, the longest ago first. */
  const known = new Map<string, number | null>();
  return async (versions) => {
    const there = new Set(versions.map(({ id }) => id));
    for (const id of known.keys()) if (!there.has(id)) known.delete(id);
    const fresh = versions.map(({ id }) => id).filter((id) => !known.has(id));
    const turn = [...fresh, ...known.keys()].slice(0, mostAtOnce);
    for (const id of turn) {
      const bytes = await bytesOf(denv, id);
      known.delete(id);
      known.set(id, bytes);
    }
    return versions.map((version) => ({ ...version, bytes: known.get(version.id) ?? null }));
  };
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
