import { parseArgs } from 'node:util';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';
import { mcpServer, serveHttp } from '../lib/server.mjs';
import { toolsOf } from '../lib/tools.mjs';
import { openWorld } from '../lib/world.mjs';

/**
 * The controller of the incident environment: a small shop to be mended, as MCP tools.
 *   main.mjs --http PORT        Streamable HTTP at 127.0.0.1:PORT/mcp
 *   main.mjs --stdio            over stdin and stdout
 *   main.mjs --call TOOL JSON   runs one tool and prints what it says, for solutions and for people
 */
const { values, positionals } = parseArgs({
  options: { http: { type: 'string' }, stdio: { type: 'boolean' }, call: { type: 'string' } },
  allowPositionals: true,
});

const world = openWorld(process.env.INCIDENT_ROOT ?? '/workspace');
const tools = toolsOf(world);

if (values.http !== undefined) await serveHttp(Number(values.http), () => mcpServer(world, tools));
else if (values.stdio) await mcpServer(world, tools).connect(new StdioServerTransport());
else if (values.call) await callOnce(values.call, positionals[0]).then(print, fail);
else fail(new Error('one of --http PORT, --stdio and --call TOOL JSON is needed'));

async function callOnce(name, input) {
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) throw new Error(`no tool ${name}; there is ${tools.map((t) => t.name).join(', ')}`);
  if (tool.changes) world.addEffect(name, 'call');
  const said = await tool.run(z.object(tool.input).parse(JSON.parse(input ?? '{}')), {
    progress: async () => {},
  });
  return typeof said === 'string' ? said : JSON.stringify(said);
}

function print(text) {
  process.stdout.write(`${text}\n`);
}

function fail(error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
