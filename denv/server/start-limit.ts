import pLimit from 'p-limit';

/**
 * Lets so many starts run at once and the rest wait, in the order they came. A start whose signal is aborted while it waits
 * ends at once, with the signal's reason, and never begins.
 */
export class StartLimit {
  private readonly limit;

  constructor(atOnce: number) {
    this.limit = pLimit(atOnce);
  }

  async run<T>(signal: AbortSignal, start: () => Promise<T>): Promise<T> {
    let begun = false;
    const turn = this.limit(() => {
      signal.throwIfAborted();
      begun = true;
      return start();
    });
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = () => {
      if (!begun) reject(signal.reason as Error); // AbortController.abort makes one
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([turn, aborted]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }
}
