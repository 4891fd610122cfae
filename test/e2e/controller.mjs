// An MCP controller over plain HTTP with one tool, `work`: it leaves one line in /workspace/effects each time it begins, and
// with `gate` it ends only once /workspace/go is there.
import { appendFileSync, existsSync } from 'node:fs';
import { createServer } from 'node:http';

let calls = 0;

async function work({ gate = false, die = false }) {
  calls += 1;
  appendFileSync('/workspace/effects', `call ${calls}\n`);
  if (die) process.exit(7);
  while (gate && !existsSync('/workspace/go')) await new Promise((go) => setTimeout(go, 20));
  return { content: [{ type: 'text', text: `worked, call ${calls}` }] };
}

async function answer({ method, params }) {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'worker', version: '1' },
      };
    case 'tools/list':
      return { tools: [{ name: 'work', inputSchema: { type: 'object' } }] };
    case 'tools/call':
      return work(params.arguments ?? {});
    default:
      return {};
  }
}

async function serve(request, response) {
  if (request.method !== 'POST') return response.writeHead(405).end();
  const chunks = await request.toArray();
  const { id, ...message } = JSON.parse(Buffer.concat(chunks).toString());
  if (id === undefined) return response.writeHead(202).end();
  const result = await answer(message);
  response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 'only' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

createServer((request, response) => void serve(request, response)).listen(8765, '127.0.0.1');
