import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import type { ModelChoice } from '../contracts/rollout';

type Price = NonNullable<ModelChoice['price']>;

const PriceFile = z.record(
  z.string(),
  z.strictObject({
    promptUsdPerMTok: z.number().min(0),
    completionUsdPerMTok: z.number().min(0),
  }),
);

/**
 * A price that is needed and not known, or a price file that cannot be read. The message says what to write where.
 * No prices come with this code: the file is the user's, and its numbers are those of their provider.
 */
export class PriceError extends Error {
  override readonly name = 'PriceError';
}

/**
 * The price of a model by the price file, null when it has none. Scripted models cost nothing.
 * @throws PriceError when the file is malformed
 */
export async function readPrice(model: string, priceFile: string): Promise<Price | null> {
  const text = await readFile(priceFile, 'utf8').catch(() => null);
  if (text !== null) {
    const found = parsePrices(text, priceFile)[model];
    if (found) return found;
  }
  if (model === 'scripted' || model.startsWith('scripted/')) {
    return { promptUsdPerMTok: 0, completionUsdPerMTok: 0 };
  }
  return null;
}

/** What a person has to add to run a cost limit on this model. */
export function missingPrice(model: string, priceFile: string): PriceError {
  const entry = JSON.stringify({ [model]: { promptUsdPerMTok: 0.5, completionUsdPerMTok: 1.5 } });
  return new PriceError(
    `a cost limit (limits.maxCostUsd) needs the price of ${model}, which ${priceFile} does not have; ` +
      `add an entry with your provider\u2019s prices, as in ${entry}, or leave the limit out`,
  );
}

function parsePrices(text: string, priceFile: string): Record<string, Price> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new PriceError(`${priceFile} is not JSON: ${String(error)}`);
  }
  const parsed = PriceFile.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new PriceError(
    `${priceFile} is not a price file: ${z.prettifyError(parsed.error)}; ` +
      `each entry is "model": {"promptUsdPerMTok": 0.5, "completionUsdPerMTok": 1.5}`,
  );
}
