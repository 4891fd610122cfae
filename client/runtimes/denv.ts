import type { Environment } from '../../contracts/task';
import { isSet, mergeRuntimeConfig } from '../../tasks/hud/config';
import { PlacementError } from '../../tasks/placement';
import { UsageError } from '../errors';
import type { RuntimeKind, RuntimeQuestion } from './runtime';

/** An image as the denv server's own target takes one. */
export function isOwnImage(image: string): boolean {
  return /^(host$|dir:|tar:)/.test(image);
}

export const denv: RuntimeKind = {
  name: 'denv',
  syntax: 'denv, denv:ver_…, denv:host, denv:dir:/PATH, denv:tar:/PATH',
  target: 'linux',
  what: 'a version or an image on the denv server',
  missing: () => null,
  takes: ['image', 'command'],
  async place(question) {
    const { asked, options, task } = question;
    const command = options.command === undefined ? null : serving(options.command);
    const controller = { kind: 'hud' as const, ...(command ? { command } : {}) };
    if (asked.argument?.startsWith('ver_')) {
      refuseImage(question, asked.argument);
      // Without a command, by what served it when the version was taken.
      const environment = { version: asked.argument, controller };
      return { environment, trees: [], config: question.config ?? {} };
    }
    const { image, config } = imageOf(question);
    const environment: Environment = { image, controller };
    if (command) return { environment, trees: [], config };
    throw asked.refuse(
      `nothing says how image ${image} serves the environment of task "${task.id}"`,
      "give --command, as in --command 'python3 -m hud.environment.server /app/env.py --port 8765'",
    );
  },
};

function imageOf({ asked, config, options, task }: RuntimeQuestion) {
  const given = asked.argument ?? options.image;
  if (asked.argument !== null && options.image !== undefined) {
    throw new UsageError(`--image ${options.image}: the runtime ${asked.words} names an image too`);
  }
  const merged = mergeRuntimeConfig(given === undefined ? {} : { image: given }, config);
  const { image } = merged;
  if (!isSet(image)) {
    throw asked.refuse(
      `task "${task.id}" has no image`,
      'give one with --image, or in its row as runtime_config.image; or name a version, as in denv:ver_…',
    );
  }
  if (isOwnImage(image)) return { image, config: merged };
  const message = `${JSON.stringify(image)} is an image of a Docker engine`;
  const remedy = `run it with --runtime docker, or name host, dir:/PATH or tar:/PATH`;
  if (image === given) throw asked.refuse(message, remedy);
  throw new PlacementError({ path: ['runtime_config', 'image'], message, remedy });
}

function refuseImage({ config, options, asked }: RuntimeQuestion, version: string): void {
  if (options.image !== undefined) {
    throw new UsageError(`--image ${options.image}: the runtime ${asked.words} names a version`);
  }
  if (!isSet(config?.image)) return;
  throw new PlacementError({
    path: ['runtime_config', 'image'],
    message: `the runtime ${version} is a version, which has its image`,
    remedy: 'leave it out',
  });
}

/** A list as JSON, or a line for a shell. */
function serving(command: string): string[] {
  if (!command.trimStart().startsWith('[')) return ['sh', '-c', `exec ${command}`];
  try {
    const argv: unknown = JSON.parse(command);
    if (Array.isArray(argv) && argv.length > 0 && argv.every((a) => typeof a === 'string')) {
      return argv;
    }
  } catch {
    // Told below, like a list of other things than texts.
  }
  throw new UsageError(`--command ${command}: give a line for a shell, or a JSON list of texts`);
}
