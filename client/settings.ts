import { setVariables } from '../rollouts/environment';
import { pathsFrom, toolCacheFrom } from '../rollouts/home';
import type { Paths } from '../rollouts/home';

/** What the environment says, typed. */
export interface Settings {
  paths: Paths;
  /** A Temporal that somebody else runs; null: the stack starts its own. */
  temporalAddress: string | null;
  namespace: string;
  /** A denv server that somebody else runs; null: the stack starts its own. */
  denvServer: string | null;
  denvApiKey: string | null;
  taskQueue: string;
  /** A Temporal command to use whatever else there is. */
  temporalCli: string | null;
  /** Where scripts/setup keeps the programs that it brings. */
  toolCache: string;
  searchPath: string;
}

export function settingsFrom(env: NodeJS.ProcessEnv): Settings {
  const given = setVariables(env);
  return {
    paths: pathsFrom(env),
    temporalAddress: given['TEMPORAL_ADDRESS'] ?? null,
    namespace: given['TEMPORAL_NAMESPACE'] ?? 'default',
    denvServer: given['DENV_SERVER'] ?? null,
    denvApiKey: given['DENV_API_KEY'] ?? null,
    taskQueue: given['ROLLOUTS_TASK_QUEUE'] ?? 'rollouts',
    temporalCli: given['TEMPORAL_CLI'] ?? null,
    toolCache: toolCacheFrom(env),
    searchPath: env['PATH'] ?? '',
  };
}
