import { createHash } from 'node:crypto';
import { Task } from '../../contracts/task';
import type { Limits } from '../../contracts/task';
import { schemaComplaints } from '../complaints';
import type { TasksetSource } from '../formats';
import { toCaps, configComplaints, isSet, nestingComplaint } from './config';
import { HudRow } from './row';
import { hudRowComplaints } from './row-complaints';
import type { LoadContext, LoadedTaskset } from '../loaded-taskset';
import { toRefusal, repeatComplaints } from '../complaint-lines';
import { PlacementError } from '../placement';
import type { LocalTree, Place, Placed } from '../placement';
import { toPlain } from '../../json/lossless';
import { dumpAsPython } from './python-json';
import { TasksetRefusedError } from '../refusals';
import type { Complaint, Refusal } from '../refusals';
import { unsupportedValues } from '../target-limits';

/**
 * HUD's task rows as tasks of ours: the environment's own prompt, and its grade as the reward. HUD drops keys that it does not
 * know; here they are refused by name, like everything that cannot be honoured.
 * @throws TasksetRefusedError
 */
export async function loadHudRows(
  source: TasksetSource,
  context: LoadContext,
): Promise<LoadedTaskset> {
  const { file, folder } = context;
  const refusals: Refusal[] = [];
  const tasks: Task[] = [];
  const trees = new Map<string, LocalTree[]>();
  const firstLines = new Map<string, number>();
  let validated = 0;
  for (const [i, part] of source.rows.entries()) {
    const read = readRow(part.value, source.asWritten[i]);
    const label = 'slug' in read ? `task "${read.slug}"` : `row ${i + 1}`;
    const refuse = (complaints: Complaint[]) =>
      refusals.push(...complaints.map((complaint) => toRefusal(file, complaint, label, part)));
    if ('complaints' in read) {
      refuse(read.complaints);
      continue;
    }
    if (read.row.validation?.length) validated += 1;
    const made = await makeTask(read, context);
    const repeats = repeatComplaints(firstLines, read.slug, 'slug', part);
    refuse([...made.complaints, ...repeats]);
    if (made.task && repeats.length === 0) {
      tasks.push(made.task);
      if (made.trees.length > 0) trees.set(made.task.id, made.trees);
    }
  }
  if (refusals.length > 0) throw new TasksetRefusedError(refusals);
  const notes =
    validated > 0
      ? [
          `the \`validation\` of ${validated} rows is not run here; HUD's own runs leave it alone too`,
        ]
      : [];
  return { name: String(source.name.value), folder, tasks, trees, notes };
}

interface ReadRow {
  row: HudRow;
  slug: string;
  args: Record<string, unknown>;
  verifierArgs: Record<string, unknown>;
}

function readRow(value: unknown, asWritten: unknown): ReadRow | { complaints: Complaint[] } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const remedy = 'give an object with `env` and `id`';
    return { complaints: [{ path: [], message: 'not a task', remedy }] };
  }
  const complaints = hudRowComplaints(value);
  if (complaints.length > 0) return { complaints };
  const row = HudRow.parse(value);
  const args = field(asWritten, 'args');
  return {
    row,
    slug: row.slug ?? defaultSlug(row.id, args),
    args: sendableArgs(args),
    verifierArgs: sendableArgs(field(field(asWritten, 'verifier'), 'args')),
  };
}

function sendableArgs(args: unknown): Record<string, unknown> {
  return (toPlain(args) ?? {}) as Record<string, unknown>; // the schema has seen to it
}

function field(value: unknown, name: string): unknown {
  return Reflect.get(Object(value), name);
}

/** As HUD makes it: the template's id, and of its arguments, if there are any, the start of a digest. */
export function defaultSlug(id: string, argsAsWritten: unknown): string {
  if (Object.keys(Object(argsAsWritten)).length === 0) return id;
  const digest = createHash('sha1').update(dumpAsPython(argsAsWritten)).digest('hex');
  return `${id}-${digest.slice(0, 8)}`;
}

interface MadeTask {
  task: Task | null;
  trees: LocalTree[];
  complaints: Complaint[];
}

async function makeTask(read: ReadRow, { place, places }: LoadContext): Promise<MadeTask> {
  const { row, slug } = read;
  const tags = toTags(row.columns);
  const placed = await placeRow(read, tags, place);
  if ('complaint' in placed) return { task: null, trees: [], complaints: [placed.complaint] };
  const { environment, config, trees } = placed;
  const target = environment.target ?? 'linux';
  const limits = toLimits(row, config);
  const task = {
    id: slug,
    environment: { ...environment, ...capsField(config), ...startupField(placed) },
    hud: {
      env: row.env,
      id: row.id,
      args: read.args,
      ...(row.verifier ? { verifier: { id: row.verifier.id, args: read.verifierArgs } } : {}),
    },
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
    ...(isSet(row.agent_config?.system_prompt)
      ? { agent: { systemPrompt: row.agent_config.system_prompt } }
      : {}),
    ...(Object.keys(tags).length > 0 ? { tags } : {}),
    checkpoints: 'never',
    onOutcomeUnknown: 'report',
  };
  const complaints = [
    ...configComplaints(config, target),
    ...nestingComplaint(limits, {
      agent: ['agent_config', 'timeout_seconds'],
      run: 'runtime_config.limits.run_timeout_s',
    }),
  ];
  if (complaints.length > 0) return { task: null, trees, complaints };
  const others = [...unsupportedValues(task, places), ...schemaComplaints(Task, task)].map(
    inRowWords,
  );
  return { task: others.length === 0 ? Task.parse(task) : null, trees, complaints: others };
}

async function placeRow(
  { row, slug, args }: ReadRow,
  tags: Record<string, string>,
  place: Place | undefined,
): Promise<Placed | { complaint: Complaint }> {
  if (!place) {
    const remedy = 'say where they run, as in: --runtime local:env.py';
    return { complaint: { path: [], message: 'HUD tasks need a runtime', remedy } };
  }
  const asked = {
    id: slug,
    env: row.env,
    task: row.id,
    args,
    tags,
    image: row.runtime_config?.image ?? null,
    runtime: row.runtime ?? null,
  };
  try {
    return await place(asked, row.runtime_config);
  } catch (error) {
    if (error instanceof PlacementError) return { complaint: error.complaint };
    throw error;
  }
}

function toLimits({ agent_config: agent }: HudRow, config: Placed['config']): Limits {
  return {
    ...(isSet(agent?.max_steps) ? { maxSteps: agent.max_steps } : {}),
    ...(isSet(agent?.timeout_seconds) ? { agentTimeoutS: agent.timeout_seconds } : {}),
    ...(isSet(agent?.tool_timeout_seconds) ? { toolTimeoutS: agent.tool_timeout_seconds } : {}),
    ...(isSet(config.limits?.run_timeout_s) ? { runTimeoutS: config.limits.run_timeout_s } : {}),
  };
}

function toTags(columns: HudRow['columns']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(columns ?? {}).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}

function capsField(config: Placed['config']) {
  const caps = toCaps(config);
  return caps ? { caps } : {};
}

function startupField({ config, environment }: Placed) {
  const timeoutS = config.limits?.startup_timeout_s;
  const { controller } = environment;
  return isSet(timeoutS) && controller ? { controller: { ...controller, timeoutS } } : {};
}

/** What our schema says of a task, in the words of the row that it was made from. */
function inRowWords(complaint: Complaint): Complaint {
  const [first, ...rest] = complaint.path;
  if (first === 'id') return { ...complaint, path: ['slug'] };
  if (first === 'hud') return { ...complaint, path: rest };
  if (first === 'environment' && rest[0] === 'image') {
    return { ...complaint, path: ['runtime_config', 'image'] };
  }
  return complaint;
}
