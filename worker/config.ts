import { z } from 'zod';
import type { ModelSettings } from '../models/router';
import type { RetentionRules } from '../retention/rules';
import { retentionFrom } from '../retention/settings';
import { parseEnvironment } from '../rollouts/environment';
import { pathsFrom, readDenvKey } from '../rollouts/home';

/** What a worker is told by its environment. */
export interface WorkerSettings {
  taskQueue: string;
  blobs: string;
  ledger: string;
  ownerFile: string;
  retention: RetentionRules;
  denv: { server: string; apiKey: string };
  models: ModelSettings;
}

const url = z.url({ protocol: /^https?$/, message: 'an http or https address' });

const Environment = z.object({
  ROLLOUTS_TASK_QUEUE: z.string().default('rollouts'),
  DENV_SERVER: url,
  DENV_API_KEY: z.string().optional(),
  OPENAI_API_KEY: z.string().optional(),
  OPENAI_BASE_URL: url.default('https://api.openai.com/v1'),
  ANTHROPIC_API_KEY: z.string().optional(),
  ANTHROPIC_BASE_URL: url.default('https://api.anthropic.com'),
  GEMINI_API_KEY: z.string().optional(),
  GOOGLE_API_KEY: z.string().optional(),
  GOOGLE_BASE_URL: url.default('https://generativelanguage.googleapis.com'),
  SCRIPTED_BASE_URL: url.optional(),
});

/**
 * Typed settings from environment variables. Where Temporal is, `@temporalio/envconfig` reads by itself (TEMPORAL_ADDRESS and its
 * kin).
 * @throws ConfigError naming the variable
 */
export function settingsFrom(env: NodeJS.ProcessEnv): WorkerSettings {
  const vars = parseEnvironment(Environment, env);
  const paths = pathsFrom(env);
  return {
    taskQueue: vars.ROLLOUTS_TASK_QUEUE,
    blobs: paths.blobs,
    ledger: paths.ledger,
    ownerFile: paths.owner,
    retention: retentionFrom(env),
    denv: { server: vars.DENV_SERVER, apiKey: vars.DENV_API_KEY ?? readDenvKey(paths) },
    models: modelSettings(vars),
  };
}

/** Each key goes to the base URL beside it. */
function modelSettings(vars: z.infer<typeof Environment>): ModelSettings {
  const baseUrls = {
    openai: vars.OPENAI_BASE_URL,
    anthropic: vars.ANTHROPIC_BASE_URL,
    google: vars.GOOGLE_BASE_URL,
    scripted: vars.SCRIPTED_BASE_URL ?? null,
  };
  const keys = {
    openai: vars.OPENAI_API_KEY,
    anthropic: vars.ANTHROPIC_API_KEY,
    google: vars.GEMINI_API_KEY ?? vars.GOOGLE_API_KEY,
  };
  const bound = (['openai', 'anthropic', 'google'] as const).flatMap((provider) => {
    const apiKey = keys[provider];
    return apiKey === undefined ? [] : [{ provider, baseUrl: baseUrls[provider], apiKey }];
  });
  return { baseUrls, keys: bound };
}
