import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import type { ModelSettings } from '../models/router';
import type { RetentionRules } from '../retention/rules';

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

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

const url = z.url({ protocol: /^https?$/, message: 'an http or https address' });

const amount = z
  .string()
  .regex(/^\d+(\.\d+)?$/, 'a number')
  .transform(Number);

/** How long versions stay, and how much they may take together. */
const Retention = z.object({
  ROLLOUTS_VERSIONS_DAYS: amount.pipe(z.number().positive('more than 0')).default(7),
  ROLLOUTS_VERSIONS_GB: amount.optional(),
});

const Environment = z.object({
  ...Retention.shape,
  HOME: z.string().optional(),
  XDG_STATE_HOME: z.string().optional(),
  ROLLOUTS_HOME: z.string().optional(),
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
  const vars = parse(Environment, env);
  const state = vars.XDG_STATE_HOME ?? join(vars.HOME ?? homedir(), '.local', 'state');
  const home = resolve(vars.ROLLOUTS_HOME ?? join(state, 'denv-rollouts'));
  return {
    taskQueue: vars.ROLLOUTS_TASK_QUEUE,
    blobs: join(home, 'blobs'),
    ledger: join(home, 'ledger.db'),
    ownerFile: join(home, 'owner'),
    retention: rulesOf(vars),
    denv: {
      server: vars.DENV_SERVER,
      apiKey: vars.DENV_API_KEY ?? keyIn(join(home, 'denv', 'key')),
    },
    models: modelSettings(vars),
  };
}

/**
 * The rules of retention alone, for whoever looks at versions without a worker's settings.
 * @throws ConfigError naming the variable
 */
export const retentionFrom = (env: NodeJS.ProcessEnv): RetentionRules =>
  rulesOf(parse(Retention, env));

function rulesOf(vars: z.output<typeof Retention>): RetentionRules {
  const { ROLLOUTS_VERSIONS_DAYS: days, ROLLOUTS_VERSIONS_GB: gb } = vars;
  return { days, budgetBytes: gb === undefined ? null : gb * 2 ** 30 };
}

function parse<S extends z.ZodType>(schema: S, env: NodeJS.ProcessEnv): z.output<S> {
  // An empty variable is one that is not set.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ConfigError(`${issue?.path.join('.')}: ${issue?.message}`);
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

/** The key file of the embedded server. */
function keyIn(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new ConfigError(`DENV_API_KEY is not set, and ${path} cannot be read`, { cause: error });
  }
}
