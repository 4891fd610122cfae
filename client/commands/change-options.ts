import type { ModelChanges } from '../api/changes';
import { parseModelArgs } from './model-args';

/** What `explore` and `fork` may be told about the model. */
export interface ChangeOptions {
  model?: string;
  baseUrl?: string;
  temperature?: string;
  modelArg?: string[];
}

export function changesOf({ model, baseUrl, temperature, modelArg }: ChangeOptions): ModelChanges {
  const args = [
    ...(modelArg ?? []),
    ...(temperature === undefined ? [] : [`temperature=${temperature}`]),
  ];
  return { model, baseUrl, ...(args.length > 0 ? { settings: parseModelArgs(args) } : {}) };
}
