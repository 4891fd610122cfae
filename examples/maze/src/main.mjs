import { parseArgs } from 'node:util';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';
import { openWorld } from '../lib/world.mjs';

/**
 * The controller of the maze: two MCP tools.
 *   main.mjs               over stdin and stdout
 *   main.mjs --go DOOR…    goes through these doors and prints where that leads, for solutions and for people
 */
const { values, positionals } = parseArgs({
  options: { go: { type: 'boolean' } },
  allowPositionals: true,
});
const world = openWorld(process.env.MAZE_ROOT ?? '/workspace');

if (values.go) {
  for (const door of positionals) process.stdout.write(`${world.go(door)}\n`);
} else {
  await serve().connect(new StdioServerTransport());
}

function serve() {
  const server = new McpServer({ name: 'maze', version: '1.0.0' });
  const look = { description: 'Where you are, and which doors lead on.', inputSchema: {} };
  const go = {
    description: 'Goes through a door, which shuts behind you.',
    inputSchema: { door: z.string() },
  };
  server.registerTool('look', look, () => text(world.look()));
  server.registerTool('go', go, ({ door }) => text(world.go(door)));
  return server;
}

function text(said) {
  return { content: [{ type: 'text', text: said }] };
}
