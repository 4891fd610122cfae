// What the replies of all providers have in common.
import type { ModelChoice } from '../contracts/rollout';
import type { Usage } from '../contracts/trajectory';
import { ModelError } from './model';

/** Tokens and their cost, which is null where no price is known. */
export function toUsage(
  promptTokens: number,
  completionTokens: number,
  { price }: ModelChoice,
): Usage {
  const costUsd = price
    ? (promptTokens * price.promptUsdPerMTok + completionTokens * price.completionUsdPerMTok) / 1e6
    : null;
  return { promptTokens, completionTokens, costUsd };
}

/** An endpoint answered with something else than its protocol has; `wanted` says what that would be. */
export function wrongBody(body: unknown, wanted: string): ModelError {
  const sample = (typeof body === 'string' ? body : (JSON.stringify(body) ?? '')).slice(0, 200);
  return new ModelError('ModelUnavailable', `the answer is not ${wanted}: ${sample}`);
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
