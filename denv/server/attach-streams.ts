import { once } from 'node:events';
import type { Duplex, Readable, Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import type { AttachedExec, TerminalSize } from '../drivers/driver';
import { DenvError } from '../errors';
import { parsed, sendBytes, sendText } from './attach-messages';
import type { Message } from './attach-messages';
import type { SandboxRow } from './rows';

/** What is at the other end of a stream, inside a sandbox. */
export interface Inside {
  input: Writable;
  outputs: [tag: 1 | 2, Readable][];
  /** Of a terminal. */
  resize?: (size: TerminalSize) => void;
  /** What is said to the client once all output was sent, and whether the stream is over then. */
  last: () => Promise<{ message: object; over: boolean }>;
  end: () => Promise<void>;
}

export function ofExec(exec: AttachedExec): Inside {
  return {
    input: exec.stdin,
    outputs: [
      [1, exec.stdout],
      [2, exec.stderr],
    ],
    ...(exec.resize ? { resize: exec.resize } : {}),
    async last() {
      const end = await exec.ended();
      const exitCode = end.kind === 'exited' ? end.exitCode : null;
      return { message: { exit: { exitCode } }, over: true };
    },
    end: () => exec.end(),
  };
}

export function ofPort(row: SandboxRow, socket: Duplex): Inside {
  socket.allowHalfOpen = true;
  return {
    input: socket,
    outputs: [[1, socket]],
    async last() {
      const over = socket.writableFinished || socket.destroyed || row.state !== 'running';
      return { message: { eof: true }, over };
    },
    async end() {
      socket.destroy();
    },
  };
}

/** Both ways until both have ended. */
export async function carry(
  ws: WebSocket,
  inbox: AsyncIterator<Message>,
  { input, outputs, resize, last }: Inside,
): Promise<void> {
  for (const stream of [input, ...outputs.map(([, output]) => output)]) {
    stream.on('error', () => undefined); // Its end tells enough.
  }
  await sendText(ws, { started: true });
  const fed = feed(inbox, input, resize);
  const drained = (async () => {
    await Promise.all(outputs.map(([tag, output]) => drain(ws, tag, output)));
    const { message, over } = await last();
    await sendText(ws, message);
    return over;
  })();
  // A client that breaks the protocol ends it at once.
  const over = await Promise.race([drained, fed.then(() => drained)]);
  if (!over) await Promise.race([fed, new Promise((gone) => input.once('close', gone))]);
}

async function drain(ws: WebSocket, tag: 1 | 2, output: Readable): Promise<void> {
  try {
    // Not destroyed at its end: a socket may still take what the client sends.
    for await (const data of output.iterator({ destroyOnReturn: false })) {
      await sendBytes(ws, tag, data as Buffer); // no encoding is set
    }
  } catch (error) {
    if (output.errored === null) throw error;
  }
}

const side = z.number().int().min(1).max(1000);
const Said = z.union([
  z.strictObject({ eof: z.literal(true) }),
  z.strictObject({ resize: z.strictObject({ cols: side, rows: side }) }),
]);

/** What the client sends, until it says that there is no more; a terminal's size may change after that too. */
async function feed(
  inbox: AsyncIterator<Message>,
  input: Writable,
  resize: Inside['resize'],
): Promise<void> {
  for (;;) {
    const next = await inbox.next();
    if (next.done) return;
    const message = next.value;
    if (message.kind === 'text') {
      const said = parsed(Said, message.text);
      if ('resize' in said) {
        if (!resize) throw new DenvError('invalid_request', 'resize: it has no terminal');
        resize(said.resize);
        continue;
      }
      await ended(input);
      if (!resize) return;
      continue;
    }
    // What nobody reads any more is dropped.
    if (!input.writable || input.write(message.data)) continue;
    await Promise.race([once(input, 'drain'), once(input, 'close')]).catch(() => undefined);
  }
}

function ended(input: Writable): Promise<void> {
  return new Promise((resolve) => {
    input.once('close', resolve);
    input.end(resolve);
  });
}
