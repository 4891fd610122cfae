import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ChatRequestSeen {
  path: string;
  headers: IncomingMessage['headers'];
  body: Record<string, unknown>;
}

export type Answer = (response: ServerResponse) => void;

/** A small HTTP endpoint on loopback that answers as a test says and keeps what it was asked. */
export async function startChatServer(answer: Answer) {
  const seen: ChatRequestSeen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Record<string, unknown>;
      seen.push({ path: request.url ?? '', headers: request.headers, body });
      answer(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // a TCP server that listens has one
  return {
    address: `http://127.0.0.1:${port}`,
    baseUrl: `http://127.0.0.1:${port}/v1`,
    seen,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export const json =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(body));

export const completion = (message: object, more: object = {}): object => ({
  id: 'c1',
  object: 'chat.completion',
  model: 'm-2026',
  choices: [
    { index: 0, finish_reason: 'stop', message: { role: 'assistant', ...message }, ...more },
  ],
  usage: { prompt_tokens: 100, completion_tokens: 20 },
});
