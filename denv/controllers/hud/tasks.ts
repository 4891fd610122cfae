import Ajv2020, { type ErrorObject, type ValidateFunction } from 'ajv/dist/2020';
import { z } from 'zod';
import { ChannelError, type HudChannel } from './channel';
import { HudFault } from './faults';

export const HudTask = z.looseObject({
  id: z.string(),
  description: z.string().nullish(),
  /** A JSON Schema, made from the signature of the task's function. */
  args: z.record(z.string(), z.unknown()).nullish(),
});
export type HudTask = z.infer<typeof HudTask>;

const TaskListing = z.object({ tasks: z.array(HudTask) });

/** @throws ChannelError, HudFault */
export async function fetchTasks(channel: HudChannel): Promise<HudTask[]> {
  const reply = await channel.request('tasks.list', {}).catch((error: unknown) => {
    // A list that was asked for has changed nothing.
    throw error instanceof ChannelError ? error.unsent() : error;
  });
  if ('error' in reply) throw new HudFault('protocol', `tasks.list: ${reply.error.message}`);
  const listing = TaskListing.safeParse(reply.result);
  if (!listing.success) throw new HudFault('protocol', 'the answer to tasks.list lists no tasks');
  return listing.data.tasks;
}

/**
 * Checks a task's name and arguments before anything is sent. HUD itself passes on an argument of the wrong type, and reads
 * "40" as 40: here both are refused.
 * @throws HudFault bad_task, naming the argument
 */
export function checkTask(tasks: HudTask[], id: string, args: Record<string, unknown>): void {
  const task = tasks.find((t) => t.id === id);
  if (!task) {
    const there = tasks.map((t) => t.id).join(', ');
    throw new HudFault('bad_task', `no task "${id}" in this environment; there are ${there}`);
  }
  const validate = compile(task.args ?? {});
  if (!validate || validate(args)) return;
  const wrong = [...new Set((validate.errors ?? []).map((error) => inWords(error, args)))];
  throw new HudFault('bad_task', `arguments of task "${id}": ${wrong.join('; ')}`);
}

/** Null for a schema that cannot be used: then the environment alone checks its arguments. */
function compile(schema: Record<string, unknown>): ValidateFunction | null {
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    validateFormats: false,
    logger: false,
  });
  try {
    return ajv.compile(schema);
  } catch {
    return null;
  }
}

function inWords(error: ErrorObject, args: Record<string, unknown>): string {
  const at = error.instancePath
    .slice(1)
    .split('/')
    .filter((step) => step !== '');
  const name = (more: string[] = []) => `\`${[...at, ...more].join('.')}\``;
  switch (error.keyword) {
    case 'required':
      return `${name([String(error.params['missingProperty'])])} is missing`;
    case 'additionalProperties':
      return `${name([String(error.params['additionalProperty'])])} is unknown`;
    default:
      if (at.length === 0) return error.message ?? error.keyword;
      return `${name()} ${error.message ?? error.keyword}, got ${shown(valueAt(args, at))}`;
  }
}

function valueAt(args: Record<string, unknown>, path: string[]): unknown {
  let value: unknown = args;
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = new Map<string, unknown>(Object.entries(value)).get(step);
  }
  return value;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
