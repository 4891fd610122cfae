import { setTimeout as sleep } from 'node:timers/promises';
import { DenvError } from '../../denv/errors';

const pollMs = 30;
/** What never holds ends a test with its name. No test takes long because of this, and none fails on a machine that is merely busy. */
const giveUpS = 120;

/** Until it holds. What denv refuses to answer, or cannot yet, does not hold. */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + giveUpS * 1000;
  for (;;) {
    if (await settled(holds())) return;
    if (Date.now() > end) throw new Error(`not within ${giveUpS} s: ${what}`);
    await sleep(pollMs);
  }
}

/** What came of it; null when denv refuses. */
export async function settled<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof DenvError) return null;
    throw error;
  }
}
