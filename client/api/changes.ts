import type { ModelChoice, RolloutInput } from '../../contracts/rollout';
import type { AgentSettings } from '../../contracts/task';
import { isModelName, modelNameRemedy } from '../../rollouts/model-names';
import { missingPrice, PriceError, readPrice } from '../../tasks/prices';
import { UsageError } from '../errors';

/** What continuations do otherwise than the rollout that they go on from. */
export interface ModelChanges {
  model?: string;
  baseUrl?: string;
  settings?: AgentSettings;
}

/**
 * An input with another model, or other settings for the same one. A model of the same provider answers at the same address,
 * unless another is given; limits stay what they were.
 * @throws UsageError when a limit needs a price that is not known, or the rollout's agent asks no model
 */
export async function withChanges(
  input: RolloutInput,
  changes: ModelChanges,
  priceFile: string,
): Promise<RolloutInput> {
  const { model: name, baseUrl, settings } = changes;
  if (name === undefined && baseUrl === undefined && settings === undefined) return input;
  if (name === undefined && input.agent !== 'model') {
    throw new UsageError(
      `${input.rolloutId} has the agent ${input.agent}, which asks no model: give one with --model`,
    );
  }
  const model = {
    ...input.model,
    ...(name === undefined ? {} : await modelOf(input, name, priceFile)),
  };
  return {
    ...input,
    agent: 'model',
    model: {
      ...model,
      ...(baseUrl === undefined ? {} : { baseUrl }),
      settings: mergedSettings(input.model.settings, settings),
    },
  };
}

async function modelOf(
  { model, limits }: RolloutInput,
  name: string,
  priceFile: string,
): Promise<Pick<ModelChoice, 'name' | 'price' | 'baseUrl'>> {
  if (!isModelName(name)) throw new UsageError(`--model ${name}: ${modelNameRemedy(name)}`);
  const price = await refusingPrices(() => readPrice(name, priceFile));
  if (price === null && limits.maxCostUsd !== undefined) {
    throw new UsageError(missingPrice(name, priceFile).message);
  }
  const baseUrl = providerOf(name) === providerOf(model.name) ? model.baseUrl : undefined;
  return { name, price, baseUrl };
}

function mergedSettings(before: AgentSettings, over: AgentSettings = {}): AgentSettings {
  const extraBody = { ...before.extraBody, ...over.extraBody };
  return { ...before, ...over, ...(Object.keys(extraBody).length > 0 ? { extraBody } : {}) };
}

const providerOf = (name: string): string | undefined => name.split('/')[0];

/** A price file that cannot be read is the asker's to mend. */
export async function refusingPrices<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof PriceError) throw new UsageError(error.message);
    throw error;
  }
}
