import { mkdirSync } from 'node:fs';
import { startStack } from '../client/stack/supervisor';
import { connect } from '../client/api/connect';
import { settingsFrom } from '../client/settings';
import type { StackContext } from './context';

/** A whole stack of its own on free ports, with an empty home: Temporal, the denv server and a worker. */
export async function startBenchStack(
  home: string,
  say: (line: string) => void,
): Promise<{ context: StackContext; close(): Promise<void> }> {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const env: NodeJS.ProcessEnv = { ...process.env, ROLLOUTS_HOME: home };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_NAMESPACE', 'DENV_SERVER', 'DENV_API_KEY']) {
    delete env[name];
  }
  const settings = settingsFrom(env);
  const stack = await startStack(settings, env, { temporal: 0, ui: 0, denv: 0 }, say);
  try {
    const rollouts = await connect(settings);
    return {
      context: { rollouts, settings, env, say, stack: () => stack.state() },
      async close() {
        await rollouts.close();
        await stack.stop();
      },
    };
  } catch (error) {
    await stack.stop();
    throw error;
  }
}
