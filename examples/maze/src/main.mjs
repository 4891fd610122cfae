import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';
import { serveHttp } from '../../incident/lib/server.mjs';
import { openWorld } from '../lib/world.mjs';

/**
 * The controller of the maze: two MCP tools.
 *   main.mjs               over stdin and stdout
 *   main.mjs --http PORT   Streamable HTTP at 127.0.0.1:PORT/mcp
 * With --slow MS a door takes so long to shut: the call has had its effect, and its answer is not out yet.
 *   main.mjs --go DOOR…    goes through these doors and prints where that leads, for solutions and for people
 */
const { values, positionals } = parseArgs({
  options: { go: { type: 'boolean' }, http: { type: 'string' }, slow: { type: 'string' } },
  allowPositionals: true,
});
const world = openWorld(process.env.MAZE_ROOT ?? '/workspace');

if (values.go) {
  for (const door of positionals) process.stdout.write(`${world.go(door)}\n`);
} else if (values.http !== undefined) {
  await serveHttp(Number(values.http), mazeServer);
} else {
  await mazeServer().connect(new StdioServerTransport());
}

function mazeServer() {
  const server = new McpServer({ name: 'maze', version: '1.0.0' });
  const look = { description: 'Where you are, and which doors lead on.', inputSchema: {} };
  const go = {
    description: 'Goes through a door, which shuts behind you.',
    inputSchema: { door: z.string() },
  };
  server.registerTool('look', look, () => text(world.look()));
  server.registerTool('go', go, async ({ door }) => {
    const said = world.go(door);
    await sleep(Number(values.slow ?? 0));
    return text(said);
  });
  return server;
}

function text(said) {
  return { content: [{ type: 'text', text: said }] };
}
