import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { barChart } from './chart.mjs';
import { cacheFigures, health } from './world.mjs';

/**
 * The tools of the shop. `run` returns text, or a list of MCP content parts; what it throws is shown to the agent as the
 * tool's error. Tools that change something say so with `changes`, and leave one line in the effects log for each call.
 */
export function toolsOf(world) {
  const service = z.enum(world.services);
  return [
    {
      name: 'list_services',
      description: 'The services of the shop, and how each does.',
      input: {},
      run: () =>
        json({ services: health(world.running().running), restarts: world.running().restarts }),
    },
    {
      name: 'read_log',
      description: 'The last lines of a service log.',
      input: { service, lines: z.number().int().min(1).max(200).default(20) },
      run: ({ service: name, lines }) =>
        world.log(name).trimEnd().split('\n').slice(-lines).join('\n'),
    },
    {
      name: 'get_config',
      description: 'The settings of a service, as they are on disk.',
      input: { service },
      run: ({ service: name }) => json(world.config(name)),
    },
    {
      name: 'query_db',
      description: 'Reads the orders: one SQL SELECT on orders(id, item, amountCents, status).',
      input: { sql: z.string() },
      run: ({ sql }) => json(world.query(sql)),
    },
    {
      name: 'cache_stats',
      description: 'Hit rate and memory of the cache, with a chart of its last minutes.',
      input: {},
      run() {
        const figures = cacheFigures(world.running().running.cache);
        const minutes = Array.from(
          { length: 10 },
          (_, n) => figures.hitRate - ((n * 3) % 5) * 0.01,
        );
        return [
          { type: 'text', text: json(figures) },
          { type: 'image', mimeType: 'image/png', data: barChart(minutes, 0.8).toString('base64') },
        ];
      },
    },
    {
      name: 'set_config',
      description: 'Changes one setting on disk. It counts once the service is restarted.',
      changes: true,
      input: { service, key: z.string(), value: z.union([z.number(), z.string()]) },
      run({ service: name, key, value }) {
        const config = world.config(name);
        if (!(key in config)) {
          throw new Error(
            `${name} has no setting ${key}; it has ${Object.keys(config).join(', ')}`,
          );
        }
        world.setConfig(name, { ...config, [key]: value });
        return json(world.config(name));
      },
    },
    {
      name: 'restart_service',
      description: 'Restarts a service with the settings on disk.',
      changes: true,
      input: { service },
      run({ service: name }) {
        const state = world.running();
        const running = { ...state.running, [name]: world.config(name) };
        const restarts = { ...state.restarts, [name]: (state.restarts[name] ?? 0) + 1 };
        world.setRunning({ running, restarts });
        world.addLog(name, `restarted, ${health(running)[name]}`);
        return `${name} is ${health(running)[name]}`;
      },
    },
    {
      name: 'release_order',
      description: 'Gives a stuck order back to the shipper.',
      changes: true,
      input: { id: z.number().int() },
      run({ id }) {
        const sql = "UPDATE orders SET status = 'queued' WHERE id = ? AND status = 'stuck'";
        if (world.run(sql, id).changes === 0) throw new Error(`order ${id} is not stuck`);
        return `order ${id} is queued`;
      },
    },
    {
      name: 'drain_connections',
      description: 'Lets the open connections of a service end, which takes seconds.',
      changes: true,
      input: { service, seconds: z.number().min(0).max(60).default(2.5) },
      async run({ service: name, seconds }, { progress }) {
        const parts = 5;
        for (let n = 1; n <= parts; n += 1) {
          await sleep((seconds * 1000) / parts);
          await progress(n, parts);
        }
        world.addLog(name, 'drained');
        return `${name} has no open connections`;
      },
    },
    {
      name: 'write_report',
      description: 'Writes your report to /workspace/report.txt.',
      changes: true,
      input: { text: z.string() },
      run({ text }) {
        world.report(text);
        return 'written';
      },
    },
  ];
}

const json = (value) => JSON.stringify(value, null, 1);
