import type { ModelChoice } from '../contracts/rollout';
import type { Usage } from '../contracts/trajectory';

/** Tokens with what they cost; null where no price is known. */
export function usageOf(
  promptTokens: number,
  completionTokens: number,
  { price }: ModelChoice,
): Usage {
  const costUsd = price
    ? (promptTokens * price.promptUsdPerMTok + completionTokens * price.completionUsdPerMTok) / 1e6
    : null;
  return { promptTokens, completionTokens, costUsd };
}
