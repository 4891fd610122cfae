import type { Context } from '../context';

/**
 * The first Ctrl-C cancels and goes on waiting for the clean-up; the second leaves. A closed terminal leaves, and what was started
 * goes on. With nothing to cancel the first one leaves too.
 * @returns stops listening
 */
export function onInterrupts(
  context: Context,
  cancel: (() => Promise<unknown>) | null,
): () => void {
  let interrupts = 0;
  const onInterrupt = (): void => {
    interrupts += 1;
    if (interrupts > 1 || !cancel) process.exit(130);
    context.note(
      'cancelling; waiting for sandboxes to be cleaned up (Ctrl-C again leaves at once)',
    );
    cancel().catch((error: unknown) => context.note(`cannot cancel: ${String(error)}`));
  };
  const onHangUp = (): void => process.exit(0);
  process.on('SIGINT', onInterrupt);
  process.on('SIGHUP', onHangUp);
  return () => {
    process.off('SIGINT', onInterrupt);
    process.off('SIGHUP', onHangUp);
  };
}
