import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { isAbsence } from '../../../../machine/files';
import { at, readProgress } from './files';
import type { ExecFiles } from './files';
import { readLog } from './log';
import type { LogRead } from './log';
import { watchDirectory } from './watch';

/** Reads what an exec wrote from its files. */
export function createOutput(files: ExecFiles) {
  const counted = { bytes: 0, offset: 0 };

  /** Reads the log from an offset to its present end, or until `onRead` says no. Returns the offset after it. */
  async function each(offset: number, onRead: (read: LogRead) => boolean): Promise<number> {
    const file = await openIfThere(at(files, 'out/log'));
    if (!file) return offset;
    let next = offset;
    try {
      for (;;) {
        const read = await readLog(file, next);
        if (read.nextOffset === next) return next;
        next = read.nextOffset;
        if (!onRead(read)) return next;
      }
    } finally {
      await file.close();
    }
  }

  return {
    /** Reads from the start, at most `maxBytes` of each stream. */
    async read(maxBytes: number): Promise<{ stdout: Buffer; stderr: Buffer; truncated: boolean }> {
      const kept = { stdout: createHead(maxBytes), stderr: createHead(maxBytes) };
      await each(0, ({ pieces }) => {
        for (const piece of pieces) kept[piece.stream].add(piece.data);
        return !(kept.stdout.full() && kept.stderr.full());
      });
      const progress = readProgress(files);
      if (progress.kind === 'failed') kept.stderr.add(Buffer.from(`${progress.message}\n`));
      return {
        stdout: kept.stdout.bytes(),
        stderr: kept.stderr.bytes(),
        truncated: kept.stdout.full() || kept.stderr.full(),
      };
    },

    async count(): Promise<number> {
      counted.offset = await each(counted.offset, ({ pieces }) => {
        for (const piece of pieces) counted.bytes += piece.data.length;
        return true;
      });
      return counted.bytes;
    },

    /** Calls `onData` with what stdout has past the offset and with all that comes, in order. */
    follow(fromOffset: number, onData: (stdout: Buffer, nextOffset: number) => void): () => void {
      let offset = fromOffset;
      let stopped = false;
      let reading = false;
      let again = false;
      const look = async (): Promise<void> => {
        again = true;
        if (reading) return;
        reading = true;
        try {
          while (again && !stopped) {
            again = false;
            await each(offset, take);
          }
        } finally {
          reading = false;
        }
      };
      const take = ({ pieces, nextOffset }: LogRead): boolean => {
        if (stopped) return false;
        offset = nextOffset;
        const stdout = pieces.filter((piece) => piece.stream === 'stdout');
        if (stdout.length > 0) onData(Buffer.concat(stdout.map(({ data }) => data)), offset);
        return true;
      };
      // What could not be read now is read from the same offset at the next look.
      const stop = watchDirectory(at(files, 'out'), () => void look().catch(() => undefined));
      return () => {
        stopped = true;
        stop();
      };
    },
  };
}

/** Keeps the first bytes of a stream. `full` once something had to be dropped. */
function createHead(maxBytes: number) {
  const parts: Buffer[] = [];
  let size = 0;
  let dropped = false;
  return {
    add(data: Buffer): void {
      const part = data.subarray(0, Math.max(0, maxBytes - size));
      if (part.length < data.length) dropped = true;
      if (part.length > 0) parts.push(part);
      size += part.length;
    },
    full: () => dropped,
    bytes: () => Buffer.concat(parts),
  };
}

async function openIfThere(file: string): Promise<FileHandle | null> {
  return open(file, 'r').catch((error: unknown) => {
    if (isAbsence(error)) return null;
    throw error;
  });
}
