import { AgentSettings } from '../../contracts/task';
import type { ModelChanges } from '../api/changes';
import { UsageError } from '../errors';
import { collect } from './args';
import type { OptionTable, OptionValues } from './options';

/** What `explore` and `fork` may be told about the model. */
export const modelOptions = {
  model: { takes: '<name>', help: 'another model than the rollout had' },
  baseUrl: { takes: '<url>', help: 'where that model answers, as in http://host:8000/v1' },
  temperature: { takes: '<t>', help: 'short for --model-arg temperature=<t>' },
  modelArg: {
    takes: '<name=value>',
    help: 'as of run; replaces what the rollout had under that name; give it again for more',
    parse: collect,
  },
} satisfies OptionTable;

export function toModelChanges(options: OptionValues<typeof modelOptions>): ModelChanges {
  const { model, baseUrl, temperature, modelArg } = options;
  const args = [
    ...(modelArg ?? []),
    ...(temperature === undefined ? [] : [`temperature=${temperature}`]),
  ];
  return { model, baseUrl, ...(args.length > 0 ? { settings: parseModelArgs(args) } : {}) };
}

/** The settings that have a field of their own; anything else goes into the request body as it stands. */
const fields: Record<string, keyof AgentSettings> = {
  temperature: 'temperature',
  top_p: 'topP',
  seed: 'seed',
  max_tokens: 'maxOutputTokens',
  system_prompt: 'systemPrompt',
};

/**
 * Parses `--model-arg name=value`, given any number of times. Values are JSON where they can be, else text.
 * @throws UsageError
 */
export function parseModelArgs(args: string[]): AgentSettings {
  const settings: Record<string, unknown> = {};
  const extraBody: Record<string, unknown> = {};
  for (const arg of args) {
    const at = arg.indexOf('=');
    if (at < 1) throw new UsageError(`--model-arg ${arg}: give name=value, as in temperature=0.2`);
    const name = arg.slice(0, at);
    const text = arg.slice(at + 1);
    const field = fields[name];
    if (field === undefined) extraBody[name] = jsonOr(text);
    else settings[field] = field === 'systemPrompt' ? text : jsonOr(text);
  }
  if (Object.keys(extraBody).length > 0) settings['extraBody'] = extraBody;
  const parsed = AgentSettings.safeParse(settings);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const name = Object.keys(fields).find((key) => fields[key] === issue?.path[0]);
  throw new UsageError(`--model-arg ${name}: ${issue?.message}`);
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
