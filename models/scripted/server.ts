import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ChatRequest, chooseReply, toCompletion } from './reply';
import { checkScript, readScript, type Script, type ScriptedReply } from './script';

/** A fault that tests make the endpoint answer with, before the script is read: `times` times, or without end. */
export type ScriptedFault =
  | { kind: 'rate_limit'; retryAfterS: number; times?: number }
  | { kind: 'unauthorized'; times?: number }
  | { kind: 'status'; status: number; times?: number }
  | { kind: 'garbage'; times?: number }
  | { kind: 'hang'; times?: number };

export interface ScriptedSettings {
  /** A YAML file, or the script itself. */
  file?: string;
  script?: Script;
  /** A free port by default. */
  port?: number;
  host?: string;
  fault?: ScriptedFault;
}

export interface ScriptedCounts {
  /** HTTP requests that arrived, whether or not anybody waited for their answer. */
  requests: number;
  /** Answers sent to their end. */
  answered: number;
  /** Requests that wait for their answer now. */
  open: number;
}

export interface ScriptedStats extends ScriptedCounts {
  /** By `when` of the entry; a request that no entry matches counts in the totals alone. */
  byEntry: Record<string, ScriptedCounts>;
}

export interface ScriptedEndpoint {
  /** As in `http://127.0.0.1:4100`; the base URL of the model is `<address>/v1`. */
  address: string;
  stats(): ScriptedStats;
  /** Sets the fault of the requests that arrive from now on; null ends it. */
  setFault(fault: ScriptedFault | null): void;
  close(): Promise<void>;
}

/**
 * A model that says what a script tells it to, behind a real HTTP endpoint with the shape of OpenAI's chat completions
 * (not streamed). The same request gets the same answer, from any number of clients in any order.
 * With `return_token_ids` an answer has token ids, and with `logprobs` their log-probabilities. `GET /stats` has the counts.
 * A prompt without an entry is answered 500, and so is one whose entry has no reply left.
 * @throws ScriptError when the script is not one
 */
export async function startScripted(settings: ScriptedSettings): Promise<ScriptedEndpoint> {
  const script = settings.file
    ? readScript(settings.file)
    : checkScript(settings.script, 'the script given');
  let fault = settings.fault ?? null;
  let faultsLeft = fault?.times ?? Infinity;
  const stats: ScriptedStats = { requests: 0, answered: 0, open: 0, byEntry: {} };
  for (const entry of script.entries) {
    stats.byEntry[entry.when] = { requests: 0, answered: 0, open: 0 };
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?')[0];
    if (request.method === 'GET' && path === '/stats') return sendJson(response, 200, stats);
    if (request.method === 'GET' && path === '/v1/models') {
      return sendJson(response, 200, {
        object: 'list',
        data: [{ id: 'scripted', object: 'model' }],
      });
    }
    if (request.method !== 'POST' || path !== '/v1/chat/completions') {
      return sendError(response, 404, `nothing answers ${request.method} ${path} here`);
    }
    count(stats, response);
    const body = await readJson(request);
    if (fault && faultsLeft > 0) {
      faultsLeft -= 1;
      return sendFault(response, fault);
    }
    const chat = ChatRequest.safeParse(body);
    if (!chat.success) return sendError(response, 400, 'not a chat completion request');
    if (chat.data.stream) return sendError(response, 400, 'the scripted model does not stream');
    const choice = chooseReply(script, chat.data);
    const counts = choice.entry && stats.byEntry[choice.entry.when];
    if (counts) count(counts, response);
    if (choice.kind === 'nothing') return sendError(response, 500, choice.message);
    await pause(choice.reply.delayMs ?? 0, response);
    sendReply(response, choice.reply, () => toCompletion(chat.data, choice.reply, choice.step));
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else sendError(response, 400, error instanceof Error ? error.message : String(error));
    });
  });
  await listen(server, settings.port ?? 0, settings.host ?? '127.0.0.1');
  const { address, port } = server.address() as AddressInfo; // a TCP server that listens has one
  return {
    address: `http://${address}:${port}`,
    stats: () => structuredClone(stats),
    setFault(next) {
      fault = next;
      faultsLeft = next?.times ?? Infinity;
    },
    close: () => closeServer(server),
  };
}

/** Counts one request in `counts`, and its answer once the last byte is out. */
function count(counts: ScriptedCounts, response: ServerResponse): void {
  counts.requests += 1;
  counts.open += 1;
  response.once('finish', () => (counts.answered += 1));
  response.once('close', () => (counts.open -= 1));
}

/** Waits, but not longer than the client does. */
function pause(ms: number, response: ServerResponse): Promise<void> {
  if (ms === 0) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    response.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function sendReply(response: ServerResponse, reply: ScriptedReply, completion: () => object): void {
  if (response.destroyed) return;
  if (reply.retryAfterS !== undefined) response.setHeader('retry-after', String(reply.retryAfterS));
  if (reply.body !== undefined) return sendText(response, reply.status ?? 200, reply.body);
  if (reply.status !== undefined) {
    return sendError(response, reply.status, reply.text ?? `the script says ${reply.status}`);
  }
  sendJson(response, 200, completion());
}

function sendFault(response: ServerResponse, fault: ScriptedFault): void {
  switch (fault.kind) {
    case 'rate_limit':
      response.setHeader('retry-after', String(fault.retryAfterS));
      return sendError(response, 429, 'too many requests');
    case 'unauthorized':
      return sendError(response, 401, 'the key is not known here');
    case 'status':
      return sendError(response, fault.status, `the endpoint says ${fault.status}`);
    case 'garbage':
      return sendText(response, 200, '<html>not a completion</html>');
    case 'hang':
      return;
  }
}

const sendError = (response: ServerResponse, status: number, message: string): void =>
  sendJson(response, status, { error: { message, type: 'scripted_error', code: null } });

const sendJson = (response: ServerResponse, status: number, body: object): void =>
  sendText(response, status, JSON.stringify(body), 'application/json');

function sendText(
  response: ServerResponse,
  status: number,
  body: string,
  type = 'text/plain',
): void {
  response.writeHead(status, { 'content-type': type }).end(body);
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer); // a request without an encoding yields buffers
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
