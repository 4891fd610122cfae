import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

/** An MCP server with the given tools; an effect is logged before the tool that makes it runs. */
export function mcpServer(world, tools) {
  const server = new McpServer({ name: 'incident', version: '1.0.0' });
  for (const tool of tools) {
    const config = {
      description: tool.description,
      inputSchema: tool.input,
      annotations: { readOnlyHint: !tool.changes },
    };
    server.registerTool(tool.name, config, async (input, extra) => {
      if (tool.changes) world.addEffect(tool.name, extra.requestId);
      const said = await tool.run(input, { progress: progressOf(extra) });
      return { content: typeof said === 'string' ? [{ type: 'text', text: said }] : said };
    });
  }
  return server;
}

/** Tells the client how far a call is, if the client asked to be told. */
function progressOf(extra) {
  const progressToken = extra._meta?.progressToken;
  return async (progress, total) => {
    if (progressToken === undefined) return;
    await extra.sendNotification({
      method: 'notifications/progress',
      params: { progressToken, progress, total },
    });
  };
}

/** Streamable HTTP at /mcp on loopback: one MCP server a session, since a client may come back with a new one. */
export function serveHttp(port, makeServer) {
  const sessions = new Map();
  const http = createServer((request, response) => void answer(request, response));

  async function answer(request, response) {
    if (request.url !== '/mcp') return response.writeHead(404).end();
    try {
      const id = request.headers['mcp-session-id'];
      const transport = id === undefined ? await openSession() : sessions.get(id);
      if (!transport) return response.writeHead(404).end('unknown session');
      await transport.handleRequest(request, response);
    } catch (error) {
      if (!response.headersSent) response.writeHead(500);
      response.end(String(error));
    }
  }

  async function openSession() {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await makeServer().connect(transport);
    return transport;
  }

  return new Promise((resolve, reject) => {
    http.once('error', reject);
    http.listen(port, '127.0.0.1', () => resolve(http));
  });
}
