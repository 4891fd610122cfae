import { watch } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { at, progressOf } from './exec-files';
import type { ExecFiles } from './exec-files';
import { readHeld, readPlain } from './exec-log';
import type { LogPiece, LogRead } from './exec-log';

const pollMs = 500;

/** What an exec wrote, read from its files. */
export function createOutput(files: ExecFiles) {
  const counted = { bytes: 0, offsets: new Map<string, number>() };

  /** Reads one output file from an offset to its present end. */
  async function each(
    name: string,
    offset: number,
    onRead: (read: LogRead) => boolean,
  ): Promise<number> {
    const file = await openOrNull(at(files, `out/${name}`));
    if (!file) return offset;
    try {
      return await eachIn(file, name, offset, onRead);
    } finally {
      await file.close();
    }
  }

  async function eachIn(
    file: FileHandle,
    name: string,
    offset: number,
    onRead: (read: LogRead) => boolean,
  ): Promise<number> {
    let next = offset;
    for (;;) {
      const read =
        name === 'log' ? await readHeld(file, next) : await readPlain(file, next, streamOf(name));
      if (read.nextOffset === next) return next;
      next = read.nextOffset;
      if (!onRead(read)) return next;
    }
  }

  const names = files.kind === 'held' ? ['log'] : ['stdout', 'stderr'];

  return {
    /** From the start, at most `maxBytes` of each stream. */
    async read(maxBytes: number): Promise<{ stdout: Buffer; stderr: Buffer; truncated: boolean }> {
      const kept = { stdout: createHead(maxBytes), stderr: createHead(maxBytes) };
      for (const name of names) {
        await each(name, 0, ({ pieces }) => {
          for (const piece of pieces) kept[piece.stream].add(piece.data);
          return !(kept.stdout.full() && kept.stderr.full());
        });
      }
      const progress = progressOf(files);
      // Without conmon the runtime has said it on stderr itself.
      if (progress.kind === 'failed' && files.kind === 'held')
        kept.stderr.add(Buffer.from(`${progress.message}\n`));
      return {
        stdout: kept.stdout.bytes(),
        stderr: kept.stderr.bytes(),
        truncated: kept.stdout.full() || kept.stderr.full(),
      };
    },

    async count(): Promise<number> {
      for (const name of names) {
        const from = counted.offsets.get(name) ?? 0;
        const next = await each(name, from, ({ pieces }) => {
          for (const piece of pieces) counted.bytes += piece.data.length;
          return true;
        });
        counted.offsets.set(name, next);
      }
      return counted.bytes;
    },

    /** Calls `onData` with what stdout has past the offset and with all that comes, in order. */
    follow(fromOffset: number, onData: (stdout: Buffer, nextOffset: number) => void): () => void {
      const name = names[0] as string; // There is always one; it holds stdout.
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
            await each(name, offset, take);
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
      const run = () => void look();
      const watcher = watch(at(files, 'out'), run);
      watcher.on('error', () => undefined); // The poll goes on.
      const poll = setInterval(run, pollMs);
      run();
      return () => {
        stopped = true;
        watcher.close();
        clearInterval(poll);
      };
    },
  };
}

const streamOf = (name: string): LogPiece['stream'] => (name === 'stdout' ? 'stdout' : 'stderr');

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

async function openOrNull(file: string): Promise<FileHandle | null> {
  try {
    return await open(file, 'r');
  } catch {
    return null;
  }
}
