import { z } from 'zod';
import { parseEnvironment } from '../rollouts/environment';
import type { RetentionRules } from './rules';

const amount = z
  .string()
  .regex(/^\d+(\.\d+)?$/, 'a number')
  .transform(Number);

const Retention = z.object({
  ROLLOUTS_VERSIONS_DAYS: amount.pipe(z.number().positive('more than 0')).default(7),
  ROLLOUTS_VERSIONS_GB: amount.optional(),
});

/**
 * How long versions stay, and how much they may take together, as the environment says.
 * @throws ConfigError naming the variable
 */
export function retentionFrom(env: NodeJS.ProcessEnv): RetentionRules {
  const { ROLLOUTS_VERSIONS_DAYS: days, ROLLOUTS_VERSIONS_GB: gb } = parseEnvironment(
    Retention,
    env,
  );
  return { days, budgetBytes: gb === undefined ? null : gb * 2 ** 30 };
}
