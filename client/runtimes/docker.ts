import { isSet, mergeRuntimeConfig } from '../../tasks/hud/config';
import { UsageError } from '../errors';
import type { RuntimeKind } from './runtime';

export const docker: RuntimeKind = {
  name: 'docker',
  syntax: 'docker, docker:IMAGE',
  target: 'docker',
  what: 'an image on a Docker engine, which serves its environment on port 8765 by itself',
  missing: () => null,
  takes: ['image'],
  async place({ asked, config, options, task }) {
    if (asked.argument !== null && options.image !== undefined) {
      throw new UsageError(`--image ${options.image}: the runtime ${asked.words} names one too`);
    }
    const given = asked.argument ?? options.image;
    const merged = mergeRuntimeConfig(given === undefined ? {} : { image: given }, config);
    if (!isSet(merged.image)) {
      throw asked.refuse(
        `task "${task.id}" has no image`,
        'name one as in docker:IMAGE, with --image, or in its row as runtime_config.image',
      );
    }
    const environment = {
      image: merged.image,
      target: 'docker',
      controller: { kind: 'hud' as const },
    };
    return { environment, trees: [], config: merged };
  },
};
