import type { Target } from '../../contracts/denv';
import type { Grader, Task } from '../../contracts/task';
import type { DenvClient } from '../../denv/client';
import { DenvError } from '../../denv/errors';
import { graderKinds } from '../../rollouts/task-facts';

/**
 * Refuses a task whose target could not grade what the agent leaves: better before the agent than after it. A server is asked
 * only about targets that are not its own.
 * @throws DenvError capability_missing
 */
export async function refuseUngradable(denv: DenvClient, task: Task): Promise<void> {
  const { address, target } = task.environment;
  const name = target ?? (address === undefined ? 'linux' : 'tcp');
  if (name === 'linux') return;
  const row = (await denv.targets()).targets.find((one) => one.name === name);
  // Of a target that it does not have, the server says so itself.
  if (!row) return;
  const missing = graderKinds(task).find((kind) => !canGrade(row, kind));
  if (!missing) return;
  throw new DenvError(
    'capability_missing',
    `task ${task.id}: a grader of kind ${missing} cannot be had on target ${name}: ${lacks[missing]}`,
  );
}

const lacks: Record<Grader['kind'], string> = {
  verify: 'no version is taken there',
  bash: 'no command is run there',
  hud: '',
  judge: '',
};

function canGrade(row: Target, kind: Grader['kind']): boolean {
  switch (kind) {
    case 'verify':
      return row.separateVerify;
    case 'bash':
      return row.exec;
    case 'hud':
    case 'judge':
      return true;
  }
}
