import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TaskRow, Verifier } from '../../contracts/task';
import type { Script, ScriptedReply } from '../../models/scripted/script';

/** A task with what the scripted model says to it. Its reward is 1 when `effects` lines were left in /workspace/effects. */
export interface CrashTask extends Partial<Omit<TaskRow, 'id' | 'prompt' | 'verifier'>> {
  id: string;
  effects: number;
  replies: ScriptedReply[];
  /** The verifier waits until its gate is opened. */
  gatedVerifier?: boolean;
  /** The verifier gets killed before it has a verdict. */
  verifierDies?: boolean;
}

const effect = 'echo x >> /workspace/effects';
export const untilGo = 'until [ -e /workspace/go ]; do sleep 0.05; done';

export const done: ScriptedReply = { text: 'Done.' };
/** One effect by the built-in shell, and with the gate no end until it is opened. */
export const exec = call('bash', { command: effect });
export const gatedExec = call('bash', { command: `${effect}; ${untilGo}` });
/** The same by the controller, over HTTP. */
export const work = call('work', {});
export const gatedWork = call('work', { gate: true });
export const lastWork = call('work', { die: true });

export const httpController = controllerAfter('');
/** It takes three seconds until it answers. */
export const slowController = controllerAfter('sleep 3; ');

export function call(name: string, args: Record<string, unknown>): ScriptedReply {
  return { toolCalls: [{ name, arguments: args }] };
}

function controllerAfter(first: string) {
  const command = ['sh', '-c', `${first}exec node /app/controller.mjs`];
  return {
    image: 'host',
    files: [{ from: './controller.mjs', to: '/app/controller.mjs' }],
    controller: { kind: 'mcp-http' as const, command, port: 8765 },
  };
}

const countEffects = `
n=$(cat /submission/workspace/effects 2>/dev/null | wc -l)
[ -z "$DIES" ] || kill -9 $$
[ -z "$GATED" ] || until [ -e /verdict/go ]; do sleep 0.05; done
reward=0; [ "$n" != "$EXPECTED" ] || reward=1
echo "{\\"reward\\": $reward, \\"effects\\": $n}" > /verdict/reward.json
`;

/** The prompt by which the script knows a task. */
const promptOf = ({ id }: CrashTask): string => `Do the work of <${id}>.`;

export const scriptOf = (tasks: CrashTask[]): Script => ({
  entries: tasks.map((task) => ({ when: promptOf(task), replies: task.replies })),
});

export const verifierOf = ({ effects, gatedVerifier, verifierDies }: CrashTask): Verifier => ({
  image: 'host',
  files: [{ from: './count.sh', to: '/verify/count.sh' }],
  command: ['sh', '/verify/count.sh'],
  collect: ['/workspace/effects'],
  env: {
    EXPECTED: String(effects),
    GATED: gatedVerifier ? 'yes' : '',
    DIES: verifierDies ? 'yes' : '',
  },
  timeoutS: 60,
});

/** Writes the tasks as a taskset, with all that it names. Returns its file. */
export function writeTaskset(folder: string, tasks: CrashTask[]): string {
  mkdirSync(folder, { recursive: true });
  copyFileSync(join(__dirname, 'controller.mjs'), join(folder, 'controller.mjs'));
  writeFileSync(join(folder, 'count.sh'), countEffects);
  const rows = tasks.map((task) => {
    const {
      replies: _said,
      gatedVerifier: _gated,
      effects: _effects,
      verifierDies: _dies,
      ...row
    } = task;
    return {
      environment: { image: 'host' },
      ...row,
      prompt: promptOf(task),
      verifier: verifierOf(task),
    };
  });
  const file = join(folder, 'taskset.json');
  writeFileSync(file, JSON.stringify({ name: 'crash', tasks: rows }));
  return file;
}
