import { setTimeout as sleep } from 'node:timers/promises';
import { DenvError } from '../../denv/errors';

const pollMs = 30;

/** Until it holds. What denv refuses to answer, or cannot yet, does not hold. */
export async function until(
  what: string,
  seconds: number,
  holds: () => Promise<boolean>,
): Promise<void> {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await settled(holds())) return;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
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
