import { setTimeout as sleep } from 'node:timers/promises';
import type { ScriptedEndpoint } from '../models/scripted/server';
import { UserError } from '../client/errors';
import { duringModelCall, duringToolCall } from './moments';
import type { DemoStack } from './stack';

type Victim = 'worker' | 'denv';

export interface Kill {
  rolloutId: string;
  killed: Victim;
  during: string;
  pid: number;
  /** Seconds until its next process answered. */
  backS: number;
}

interface PlannedKill {
  task: string;
  killed: Victim;
  during: string;
  /** Of a model call: what the prompt says. */
  when?: string;
}

/** In the order of the kill taskset. */
const plan: PlannedKill[] = [
  { task: 'slow-http', killed: 'worker', during: 'a tool call over HTTP' },
  { task: 'slow-stdio', killed: 'denv', during: 'a tool call over stdio' },
  { task: 'slow-exec', killed: 'denv', during: 'an exec' },
  { task: 'slow-model', killed: 'worker', during: 'a model call', when: 'Think for a while' },
];

/** Waits for each moment in turn, kills -9 what is to be killed then, and waits until its supervisor has it up again. */
export async function killInTurn(
  stack: DemoStack,
  model: ScriptedEndpoint,
  batchId: string,
  say: (line: string) => void,
): Promise<Kill[]> {
  const kills: Kill[] = [];
  for (const { task, killed, during, when } of plan) {
    const rolloutId = `rollout/${batchId}/${task}/0`;
    if (when === undefined) await duringToolCall(stack, rolloutId);
    else await duringModelCall(stack, model, when);
    const { pid, backS } = await killAndAwait(stack, killed);
    say(`killed ${killed} (pid ${pid}) during ${during}; up again after ${backS.toFixed(1)} s`);
    kills.push({ rolloutId, killed, during, pid, backS });
  }
  return kills;
}

async function killAndAwait(
  stack: DemoStack,
  name: Victim,
): Promise<{ pid: number; backS: number }> {
  const { pid, restarts } = serviceOf(stack, name);
  if (pid === null) throw new UserError(`there is no ${name} to kill`);
  process.kill(pid, 'SIGKILL');
  const began = Date.now();
  for (;;) {
    const now = serviceOf(stack, name);
    if (now.restarts > restarts && now.state === 'ready') break;
    await sleep(50);
  }
  return { pid, backS: (Date.now() - began) / 1000 };
}

function serviceOf(stack: DemoStack, name: Victim) {
  const service = stack.state().services.find((candidate) => candidate.name === name);
  if (!service) throw new UserError(`the stack does not run the ${name}; it cannot be killed here`);
  return service;
}
