import { constants, openSync, readdirSync, readlinkSync } from 'node:fs';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { DenvError } from '../../../errors';
import { at, findHolderPid } from './files';
import type { ExecFiles } from './files';
import { isAbsence, readIfThere } from '../../../../machine/files';

// As /proc/PID/fdinfo shows what open(2) was given.
const accessMode = 0o3;
const closedOnExec = 0o2000000;
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
      const holder = findHolderPid(files);
      // Until the start is through, conmon also has the writing ends of the output pipes.
      const started = (readIfThere(at(files, 'sync')) ?? '') !== '';
      const pipe = holder !== null && started ? findWriteEnd(holder) : null;
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
 * The one pipe that conmon made and holds open for writing. One that it inherited from whoever started the server has not the
 * flag that closes it at an execution. The exec's own descriptor 0 is not asked: the agent may put there what it likes.
 */
function findWriteEnd(holder: number): string | null {
  try {
    for (const name of readdirSync(`/proc/${holder}/fd`)) {
      const fd = `/proc/${holder}/fd/${name}`;
      if (!readlinkSync(fd).startsWith('pipe:')) continue;
      const flags = /^flags:\s+(\d+)/m.exec(readIfThere(`/proc/${holder}/fdinfo/${name}`) ?? '');
      const bits = parseInt(flags?.[1] ?? '0', 8);
      if ((bits & accessMode) === constants.O_WRONLY && (bits & closedOnExec) !== 0) return fd;
    }
  } catch (error) {
    if (!isAbsence(error)) throw error; // It ended while it was looked at.
  }
  return null;
}
