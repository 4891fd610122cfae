import type { RuntimeKind } from './runtime';

export const tcp: RuntimeKind = {
  name: 'tcp',
  syntax: 'tcp://HOST:PORT',
  target: 'tcp',
  what: 'a control channel that somebody else serves: nothing is started there, and nothing stopped',
  missing: () => null,
  takes: ['shared'],
  async place({ asked, config, options }) {
    const address = /^\/\/([^/\s]+:\d{1,5})\/?$/.exec(asked.argument ?? '')?.[1];
    if (address === undefined) {
      throw asked.refuse('not an address', 'write it as in tcp://127.0.0.1:8765');
    }
    const environment = {
      address,
      target: 'tcp',
      // HUD's environments keep state that rollouts share, so one at a time unless somebody knows better.
      ...(options.shared === undefined ? {} : { shared: options.shared }),
      controller: { kind: 'hud' as const },
    };
    return { environment, trees: [], config: config ?? {} };
  },
};
