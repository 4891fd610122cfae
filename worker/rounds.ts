/**
 * Works now and at every interval, one round at a time, until it is stopped. A round that fails is told and tried again at the
 * next.
 */
export function startRounds(
  round: () => Promise<unknown>,
  everyMs: number,
  failed: (error: unknown) => void,
): { stop: () => Promise<void> } {
  let stopped = false;
  let wake: () => void = () => undefined;
  const rounds = (async () => {
    while (!stopped) {
      try {
        await round();
      } catch (error) {
        failed(error);
      }
      if (stopped) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, everyMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  })();
  return {
    async stop() {
      stopped = true;
      wake();
      await rounds;
    },
  };
}
