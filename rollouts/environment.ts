import type { z } from 'zod';

/** A variable of the environment that cannot be used. The message begins with its name. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The variables that are set: an empty one counts as one that is not. */
export function setVariables(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
}

/** Parses the variables that are set. @throws ConfigError naming the first variable that is wrong */
export function parseEnvironment<S extends z.ZodType>(
  schema: S,
  env: NodeJS.ProcessEnv,
): z.output<S> {
  const parsed = schema.safeParse(setVariables(env));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ConfigError(`${issue?.path.join('.')}: ${issue?.message}`);
}
