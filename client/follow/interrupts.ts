import type { Context } from '../context';
import { reasonOf } from '../errors';

/**
 * Listens for Ctrl-C: the first one cancels, and the command keeps waiting for the clean-up; the second leaves. With nothing to
 * cancel the first one leaves. A closed terminal leaves too, and what was started keeps running.
 * @returns a function that stops listening
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
    cancel().catch((error: unknown) =>
      context.note(`it could not be cancelled: ${reasonOf(error)}`),
    );
  };
  const onHangUp = (): void => process.exit(0);
  process.on('SIGINT', onInterrupt);
  process.on('SIGHUP', onHangUp);
  return () => {
    process.off('SIGINT', onInterrupt);
    process.off('SIGHUP', onHangUp);
  };
}
