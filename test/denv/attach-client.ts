import { WebSocket } from 'ws';
import type { AttachStart } from '../../contracts/denv';

export interface Attached {
  ws: WebSocket;
  /** Resolves once the stream is up; rejects with the code that the server answered instead. */
  started: Promise<void>;
  /** Both outputs, and the last text messages, once the server has closed. */
  closed: Promise<{ stdout: Buffer; stderr: Buffer; said: unknown[]; code: number }>;
  send(data: Buffer): Promise<void>;
  eof(): void;
}

/** The client's side of the attach stream, as its protocol in the contract says. */
export function attach(
  address: string,
  sandboxId: string,
  start: AttachStart,
  headers: Record<string, string> = { authorization: 'Bearer dak_test' },
): Attached {
  const url = `${address.replace('http', 'ws')}/v1/envs/${sandboxId}/attach`;
  const ws = new WebSocket(url, { headers });
  const outputs: [Buffer[], Buffer[]] = [[], []];
  const said: unknown[] = [];
  const started = new Promise<void>((resolve, reject) => {
    ws.on('error', reject);
    ws.on('close', () => reject(new Error('closed before it had started')));
    ws.on('message', (data: Buffer, isBinary) => {
      if (isBinary) {
        outputs[data[0] === 1 ? 0 : 1].push(data.subarray(1));
        return;
      }
      const message = JSON.parse(data.toString()) as {
        started?: true;
        error?: { code: string };
      };
      if (message.started) resolve();
      else if (message.error) reject(new Error(message.error.code));
      said.push(message);
    });
  });
  const closed = new Promise<Awaited<Attached['closed']>>((resolve) => {
    ws.on('close', (code) =>
      resolve({ stdout: Buffer.concat(outputs[0]), stderr: Buffer.concat(outputs[1]), said, code }),
    );
  });
  started.catch(() => undefined); // Not every test looks at it.
  ws.on('open', () => ws.send(JSON.stringify(start)));
  return {
    ws,
    started,
    closed,
    send: (data) =>
      new Promise((resolve, reject) =>
        ws.send(data, (error) => (error ? reject(error) : resolve())),
      ),
    eof: () => ws.send(JSON.stringify({ eof: true })),
  };
}
