import { connect } from '../client/api/connect';
import type { Rollouts } from '../client/api/connect';
import { UserError } from '../client/errors';
import type { Settings } from '../client/settings';
import { usualPorts } from '../client/stack/ports';
import { readStackState } from '../client/stack/state';
import type { StackState } from '../client/stack/state';
import { startStack } from '../client/stack/supervisor';

export interface DemoStack {
  rollouts: Rollouts;
  /** As it is now: pids change when a service is started again. */
  state(): StackState;
  /** This process started it and takes it down. */
  own: boolean;
  /** Somebody wants this to stop: what runs is to be cancelled and cleaned up. */
  stopping: AbortSignal;
}

/**
 * The running stack of this home for the length of `use`; where none runs, one of its own, which is taken down again on
 * every way out. The first Ctrl-C aborts `stopping` and `use` is waited for; the second does not wait for anything.
 */
export async function withStack<T>(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  say: (line: string) => void,
  use: (stack: DemoStack) => Promise<T>,
): Promise<T> {
  const { stopping, forced, isForced } = stopSignals(say);
  const own = !readStackState(settings.paths.run)?.ready;
  if (!own) say(`using the stack of ${settings.paths.home}, which runs already`);
  const ports = { ...usualPorts, orOtherPorts: true };
  const stack = own ? await startStack(settings, env, ports, say) : null;
  try {
    stopping.throwIfAborted();
    const used = withConnection(settings, (rollouts) => use({ rollouts, state, own, stopping }));
    return await Promise.race([used, forced]);
  } catch (error) {
    throw stopping.aborted ? stopping.reason : error;
  } finally {
    await stack?.stop({ now: isForced() });
  }

  function state(): StackState {
    const now = readStackState(settings.paths.run);
    if (!now) throw new UserError(`the stack of ${settings.paths.home} has ended`);
    return now;
  }
}

function stopSignals(say: (line: string) => void) {
  const asked = new AbortController();
  const forced = Promise.withResolvers<never>();
  forced.promise.catch(() => undefined); // Nobody waits for it while a stack is being started.
  let isForced = false;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      const why = new UserError(`stopped by ${signal}`);
      isForced = asked.signal.aborted;
      if (isForced) forced.reject(why);
      else say('cancelling what runs, and cleaning up; once more does not wait');
      asked.abort(why);
    });
  }
  return { stopping: asked.signal, forced: forced.promise, isForced: () => isForced };
}

async function withConnection<T>(
  settings: Settings,
  use: (rollouts: Rollouts) => Promise<T>,
): Promise<T> {
  const rollouts = await connect(settings);
  try {
    return await use(rollouts);
  } finally {
    await rollouts.close();
  }
}
