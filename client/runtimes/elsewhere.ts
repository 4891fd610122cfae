import type { PlacementTask } from '../../tasks/placement';
import { isOwnImage } from './denv';
import type { RuntimeKind } from './runtime';

/** HUD's runtimes that run on somebody's cloud, and what each would take. */
export const elsewhere: RuntimeKind[] = [
  refusing('modal', 'sandboxes of Modal', 'Modal\u2019s package, an account there and its token'),
  refusing('daytona', 'sandboxes of Daytona', 'Daytona\u2019s package, an account and its key'),
  refusing(
    'hud',
    'environments deployed on HUD\u2019s platform',
    'an account with HUD, its HUD_API_KEY and a deployed environment',
  ),
  refusing(
    'hosted',
    'whole rollouts on HUD\u2019s platform, its agents included',
    'an account with HUD and its HUD_API_KEY, and the rollouts would not be ours',
  ),
];

function refusing(name: string, what: string, missing: string): RuntimeKind {
  return {
    name,
    syntax: name,
    target: null,
    what,
    missing: () => missing,
    takes: [],
    place({ asked, task, beside }) {
      throw asked.refuse(
        `${what} cannot be driven from here: that takes ${missing}`,
        `task "${task.id}" would run on ${wouldServe(task, beside).join(', ')}`,
      );
    },
  };
}

/** Runtimes for a task, the likeliest first, as they are written. */
export function wouldServe(task: PlacementTask, beside: string[]): string[] {
  const source = beside[0];
  return [
    `local:${source ?? 'PATH/TO/env.py'}`,
    task.image === null || isOwnImage(task.image) ? 'docker:IMAGE' : 'docker',
    task.image !== null && isOwnImage(task.image) ? 'denv' : 'denv:VERSION',
    'tcp://HOST:PORT',
  ];
}
