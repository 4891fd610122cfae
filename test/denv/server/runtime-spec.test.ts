import { CreateSandboxRequest } from '../../../contracts/denv';
import type { RuntimeSpec } from '../../../denv/server/rows';
import { overSpec } from '../../../denv/server/runtime-spec';

describe('a create over the spec of a version', () => {
  const own = { kind: 'hud' as const, command: ['serve'], port: 9000, timeoutS: 240, uid: 1000 };
  const spec: RuntimeSpec = {
    image: { kind: 'host' },
    base: 'b',
    digest: 'd',
    reproducible: false,
    env: {},
    workdir: '/workspace',
    uid: 1000,
    caps: { cpus: 1, memoryMb: 512, pids: 64 },
    command: null,
    controller: own,
  };
  const over = (controller?: object) =>
    overSpec(spec, CreateSandboxRequest.parse({ version: 'v', controller })).controller;

  it.each([
    ['nothing', undefined, own],
    ['a HUD controller without a command', { kind: 'hud', timeoutS: 9 }, { ...own, timeoutS: 9 }],
    [
      'a HUD controller with one',
      { kind: 'hud', command: ['other'] },
      { ...own, command: ['other'], port: 8765 },
    ],
    ['another kind', { kind: 'shell' }, { kind: 'shell', uid: 1000 }],
  ])('keeps what serves it, asked for %s', (_what, asked, controller) => {
    expect(over(asked)).toEqual(controller);
  });
});
