import { type HudRow, HudWorld } from './hud-world';

/** HUD's own command line, unchanged, against environments in sandboxes without a network. */

const world = new HudWorld();
beforeAll(() => world.start(), 240_000);
afterAll(() => world.end(), 60_000);
jest.setTimeout(120_000);

const rows: [string, HudRow][] = [
  ['text_env.py', { env: 'text', id: 'add', args: { a: 2, b: 3 } }],
  ['text_env.py', { env: 'text', id: 'add', args: { a: 40, b: 2 } }],
  ['text_env.py', { env: 'text', id: 'add_detailed', args: { a: 5, b: 6 } }],
  ['mcp_env.py', { env: 'counter', id: 'count_to', args: { target: 3 } }],
];

describe('hud eval --runtime tcp://', () => {
  it.each(rows)('scores 1.0 on %s: %j', async (env, row) => {
    const report = await world.within(env, ({ ports }) =>
      world.hudEval([row], ports['8765'] ?? ''),
    );

    expect(report).toMatchObject({ run_count: 1, mean_reward: 1, error_count: 0 });
    expect(report.runs[0]).toMatchObject({ reward: 1, is_error: false, trace_error: null });
    const { sandboxes } = await world.server.client.listSandboxes({});
    expect(sandboxes).toEqual([]);
  });
});
