import { constants, openSync, readdirSync, readlinkSync } from 'node:fs';
import net from 'node:net';
import { DenvError } from '../../errors';
import { at, holderPid } from './exec-files';
import type { ExecFiles } from './exec-files';
import { readOrNull, sleep } from './processes';

const accessMode = 0o3;
/** conmon makes the pipe within a few milliseconds of its start; past this it never will. */
const openLimitMs = 15_000;

/**
 * Writes into the stdin pipe of an exec, opened through conmon's own descriptors: a host process, where nobody in the
 * sandbox can put another file in its place.
 */
export function createStdin(files: ExecFiles) {
  let opening: Promise<net.Socket> | null = null;

  async function open(): Promise<net.Socket> {
    const deadline = Date.now() + openLimitMs;
    for (;;) {
      const holder = holderPid(files);
      const pipe = holder === null ? null : writeEndOf(holder, readOrNull(at(files, 'pid')));
      if (pipe !== null) {
        const fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
        const socket = new net.Socket({ fd, readable: false, writable: true });
        socket.on('error', () => (opening = null)); // Each write reports its own error.
        return socket;
      }
      if (holder === null || Date.now() > deadline) throw closed('it has ended');
      await sleep(1);
    }
  }

  return {
    async write(data: Buffer): Promise<void> {
      opening ??= open();
      const socket = await opening.catch((error: unknown) => {
        opening = null;
        throw error;
      });
      await new Promise<void>((resolve, reject) => {
        socket.write(data, (error) => (error ? reject(closed(error.message)) : resolve()));
      });
    },
    release(): void {
      void opening?.then((socket) => socket.destroy()).catch(() => undefined);
      opening = null;
    },
  };

  function closed(why: string): DenvError {
    return new DenvError('controller_failed', `stdin of exec ${files.dir} takes nothing: ${why}`);
  }
}

/**
 * The descriptor of conmon's whose other end is the stdin of the exec's process. Conmon may hold other pipes, inherited from
 * whoever started the server.
 */
function writeEndOf(holder: number, pid: string | null): string | null {
  if (pid === null) return null;
  try {
    const stdin = readlinkSync(`/proc/${pid.trim()}/fd/0`);
    if (!stdin.startsWith('pipe:')) return null;
    for (const name of readdirSync(`/proc/${holder}/fd`)) {
      const fd = `/proc/${holder}/fd/${name}`;
      if (readlinkSync(fd) !== stdin) continue;
      const flags = /^flags:\s+(\d+)/m.exec(readOrNull(`/proc/${holder}/fdinfo/${name}`) ?? '');
      const mode = parseInt(flags?.[1] ?? '0', 8) & accessMode;
      if (mode === constants.O_WRONLY) return fd;
    }
  } catch {
    // It ended while it was looked at.
  }
  return null;
}
