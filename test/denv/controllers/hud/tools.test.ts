import { createServer } from 'node:http';
import { type AddressInfo, connect as connectTcp } from 'node:net';
import { Server as SshServer, utils } from 'ssh2';
import { type WebSocket, WebSocketServer } from 'ws';
import { connectHud } from '../../../../denv/controllers/hud/connect';
import type { HudConnection } from '../../../../denv/controllers/hud/connection';
import { makeCall } from './environment';
import { HELLO, scriptedHud, type ScriptedHud } from './scripted-hud';

const signal = new AbortController().signal;
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

interface Announced {
  name: string;
  protocol: string;
  url: string;
  params: object;
}

/** An environment with these capabilities, whose tunnels lead to their urls. */
async function environment(
  bindings: Announced[],
): Promise<{ connection: HudConnection; server: ScriptedHud }> {
  const server = await scriptedHud({
    hello: (peer) => peer.reply({ ...HELLO, bindings }),
    'tunnel.open': (peer) => {
      const url = bindings.find(({ name }) => name === peer.frame.params['capability'])?.url ?? '';
      const stream = connectTcp(Number(new URL(url).port), '127.0.0.1');
      stream.on('error', (error) => peer.fail(-32000, error.message));
      stream.once('connect', () => {
        peer.reply({ capability: peer.frame.params['capability'] });
        peer.socket.pipe(stream).pipe(peer.socket);
        peer.socket.on('close', () => stream.destroy());
      });
    },
  });
  stops.push(() => server.stop());
  const connection = await connectHud({ connect: server.connect, timeoutS: 10, signal });
  stops.push(() => connection.release());
  return { connection, server };
}

interface Request {
  id?: string;
  method: string;
  params: { name?: string; cursor?: string; arguments?: object };
}

/** An MCP server over WebSocket, whose tools come on two pages. */
async function webSocketMcp(
  act: (request: Request, socket: WebSocket) => object | null,
  tools = ['first', 'second'],
) {
  const seen: {
    authorization: string | undefined;
    subprotocol: string;
    url: string | undefined;
  }[] = [];
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  server.on('connection', (socket, request) => {
    const { authorization } = request.headers;
    seen.push({ authorization, subprotocol: socket.protocol, url: request.url });
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Request; // as our own client wrote it
      if (message.id === undefined) return;
      const result = answerOf(message, tools) ?? act(message, socket);
      if (result) socket.send(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
    });
  });
  await new Promise((listening) => server.once('listening', listening));
  stops.push(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  const { port } = server.address() as AddressInfo; // not on a pipe
  return { seen, url: `ws://127.0.0.1:${port}/mcp?x=1` };
}

function answerOf({ method, params }: Request, tools: string[]): object | null {
  const listed = tools.map((name) => ({ name, inputSchema: { type: 'object' } }));
  if (method === 'initialize') {
    return {
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 's', version: '1' },
    };
  }
  if (method !== 'tools/list') return null;
  if (params.cursor === 'page-2') return { tools: listed.slice(1) };
  return { tools: listed.slice(0, 1), nextCursor: 'page-2' };
}

const mcp = (name: string, url: string, params: object = {}): Announced => ({
  name,
  protocol: 'mcp/2025-11-25',
  url,
  params: { transport: 'websocket', ...params },
});

const use = (connection: HudConnection, name: string, args: object = {}) =>
  connection.call(makeCall('tools/call', { name, arguments: args }));

describe('an MCP capability over WebSocket', () => {
  it('lists every page as one, and calls with its token', async () => {
    const { url, seen } = await webSocketMcp((request) => ({
      content: [],
      structuredContent: request.params,
    }));
    const { connection } = await environment([mcp('tools', url, { auth_token: 'secret' })]);

    const listed = await connection.call(makeCall('tools/list'));
    const called = await use(connection, 'second', { a: 1 });

    expect(listed).toMatchObject({ result: { tools: [{ name: 'first' }, { name: 'second' }] } });
    expect(called).toMatchObject({
      result: { structuredContent: { name: 'second', arguments: { a: 1 } } },
    });
    expect(seen).toEqual([{ authorization: 'Bearer secret', subprotocol: 'mcp', url: '/mcp?x=1' }]);
  });

  it('loses a call when its stream ends, and opens another for the next', async () => {
    let calls = 0;
    const { url, seen } = await webSocketMcp((_, socket) => {
      calls += 1;
      if (calls > 1) return { content: [] };
      socket.terminate();
      return null;
    });
    const { connection } = await environment([mcp('tools', url)]);

    await expect(use(connection, 'first')).rejects.toMatchObject({
      name: 'ControllerLost',
      sent: true,
    });
    expect(await use(connection, 'first')).toMatchObject({ kind: 'result' });
    expect(seen).toHaveLength(2);
  });

  it('ends with the time of its call', async () => {
    const { url } = await webSocketMcp(() => null);
    const { connection } = await environment([mcp('tools', url)]);

    const params = { name: 'first', arguments: {} };
    const answer = await connection.call(makeCall('tools/call', params, { timeoutS: 0.5 }));

    expect(answer).toEqual({ kind: 'timed_out' });
  });

  it('prefixes names when there are two, and tells a dead one from a lost call', async () => {
    const { url } = await webSocketMcp(() => ({ content: [] }));
    const both = await environment([mcp('a', url), mcp('b', url)]);
    const dead = await environment([mcp('a', 'ws://127.0.0.1:1/')]);

    expect(await both.connection.call(makeCall('tools/list'))).toMatchObject({
      result: {
        tools: [
          { name: 'a__first' },
          { name: 'a__second' },
          { name: 'b__first' },
          { name: 'b__second' },
        ],
      },
    });
    await expect(dead.connection.call(makeCall('tools/list'))).rejects.toMatchObject({
      name: 'ControllerLost',
      sent: false,
      message: expect.stringMatching(
        /^the MCP server of capability a was not reached: .*ECONNREFUSED/,
      ),
    });
  });

  it.each([
    ['https://127.0.0.1:1/mcp', 'streamable-http', '"streamable-http" over https:'],
    ['http://127.0.0.1:1/mcp', 'websocket', '"websocket" over http:'],
  ])('refuses %s with %s by name', async (url, transport, why) => {
    const { connection, server } = await environment([mcp('tools', url, { transport })]);

    await expect(connection.call(makeCall('tools/list'))).rejects.toMatchObject({
      code: 'capability_missing',
      message: `capability tools: MCP by ${why} is not supported`,
    });
    expect(server.frames.filter(({ method }) => method === 'tunnel.open')).toEqual([]);
  });
});

describe('an MCP capability over HTTP', () => {
  it('tells a call that found no way in from one that was lost', async () => {
    const web = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        const message = JSON.parse(body) as Request; // as our own client wrote it
        const result = answerOf(message, ['first', 'second']) ?? { content: [] };
        const headers = { 'content-type': 'application/json', connection: 'close' };
        if (message.id === undefined) response.writeHead(202, { connection: 'close' }).end();
        else if (message.params.name === 'second') request.socket.destroy();
        else {
          const { id } = message;
          response.writeHead(200, headers).end(JSON.stringify({ jsonrpc: '2.0', id, result }));
        }
      });
    });
    await new Promise<void>((listening) => web.listen(0, '127.0.0.1', listening));
    stops.push(() => web.close());
    const { port } = web.address() as AddressInfo; // not on a pipe
    const transport = { transport: 'streamable-http' };
    const { connection } = await environment([
      mcp('tools', `http://127.0.0.1:${port}/deep/mcp?x=1`, transport),
    ]);

    expect(await use(connection, 'first')).toEqual({ kind: 'result', result: { content: [] } });
    await expect(use(connection, 'second')).rejects.toMatchObject({ sent: true });
    await new Promise((closed) => web.close(closed));
    await expect(use(connection, 'first')).rejects.toMatchObject({
      name: 'ControllerLost',
      sent: false,
      message: expect.stringMatching(/^capability tools: connect ECONNREFUSED/),
    });
  });
});

/** Not ed25519: ssh2 cannot read one in a hundred of the keys that it makes. */
const generateKey = () => utils.generateKeyPairSync('ecdsa', { bits: 256 });

describe('the shell of a workspace', () => {
  const client = generateKey();
  const host = generateKey();

  async function sshServer(): Promise<{ url: string; connections: () => number }> {
    let connections = 0;
    const server = new SshServer({ hostKeys: [host.private] }, (peer) => {
      connections += 1;
      peer.on('error', () => undefined);
      peer.on('authentication', (attempt) => attempt.accept());
      peer.on('session', (accept) => {
        accept().on('exec', (take, _, { command }) => {
          const stream = take();
          if (command.includes('big')) stream.write(Buffer.alloc(33 * 1024 * 1024, 'x'));
          else stream.write(command);
          stream.stderr.write('said');
          stream.exit(0);
          stream.end();
        });
      });
    });
    await listen(server);
    stops.push(() => server.close());
    const { port } = server.address() as AddressInfo; // not on a pipe
    return { url: `ssh://127.0.0.1:${port}`, connections: () => connections };
  }

  const shell = (url: string, hostKey: string): Announced => ({
    name: 'shell',
    protocol: 'ssh/2',
    url,
    params: { user: 'agent', client_key: client.private, host_pubkey: hostKey, shell: 'bash' },
  });

  it('takes the whole output of a quick command, with its words quoted', async () => {
    const { url, connections } = await sshServer();
    const { connection } = await environment([shell(url, host.public)]);

    const path = "it's $HOME";
    const answers = await Promise.all([1, 2, 3].map(() => use(connection, 'read_file', { path })));

    const command = `'head' '-c' '16777216' '--' 'it'\\''s $HOME'`;
    for (const answer of answers) {
      expect(answer).toMatchObject({
        result: {
          isError: false,
          content: [{ text: command }],
          structuredContent: { exitCode: 0 },
        },
      });
    }
    expect(connections()).toBe(1);
  });

  it('cuts the output at its limit and says so', async () => {
    const { url } = await sshServer();
    const { connection } = await environment([shell(url, host.public)]);

    const answer = await use(connection, 'read_file', { path: 'big' });

    const content =
      answer.kind === 'result' ? (answer.result['content'] as { text: string }[]) : [];
    expect(content[0]?.text).toHaveLength(32 * 1024 * 1024 + '\n[output cut at its limit]'.length);
  });

  it('trusts no host but the announced one', async () => {
    const { url } = await sshServer();
    const other = generateKey().public;
    const { connection } = await environment([shell(url, other)]);

    await expect(use(connection, 'bash', { command: 'true' })).rejects.toMatchObject({
      name: 'ControllerLost',
      sent: false,
      message: expect.stringMatching(/^the shell of capability shell was not reached: .*[Hh]ost/),
    });
  });

  it('is told apart from MCP tools of the same names', async () => {
    const { url } = await webSocketMcp(() => ({ content: [] }), ['bash', 'other']);
    const ssh = await sshServer();
    const { connection } = await environment([shell(ssh.url, host.public), mcp('tools', url)]);

    const names = ['bash', 'read_file', 'write_file', 'tools__bash', 'other'];
    expect(await connection.call(makeCall('tools/list'))).toMatchObject({
      result: { tools: names.map((name) => ({ name })) },
    });
    expect(await use(connection, 'tools__bash')).toEqual({
      kind: 'result',
      result: { content: [] },
    });
  });

  it('is not offered without its keys', async () => {
    const { connection } = await environment([
      { name: 'shell', protocol: 'ssh/2', url: 'ssh://127.0.0.1:1', params: {} },
    ]);

    await expect(use(connection, 'bash', { command: 'true' })).rejects.toMatchObject({
      code: 'capability_missing',
      message:
        'capability shell: a shell without a client key, or without the key of its host, is not supported',
    });
  });
});

function listen(server: SshServer): Promise<void> {
  return new Promise((listening) => server.listen(0, '127.0.0.1', () => listening()));
}
