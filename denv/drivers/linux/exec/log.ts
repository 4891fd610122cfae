import type { FileHandle } from 'node:fs/promises';

/** conmon's log: lines of `TIME stdout|stderr F|P BYTES`, where F says that a newline followed. */

export interface LogPiece {
  stream: 'stdout' | 'stderr';
  data: Buffer;
}

const newline = Buffer.from('\n');
const chunkBytes = 1 << 20;

/** Decodes whole lines. @returns the pieces, and how many bytes of `bytes` they took */
export function decodeLog(bytes: Buffer): { pieces: LogPiece[]; used: number } {
  const pieces: LogPiece[] = [];
  let start = 0;
  for (;;) {
    const end = bytes.indexOf(10, start);
    if (end < 0) return { pieces, used: start };
    const streamAt = bytes.indexOf(32, start) + 1;
    const stream = bytes[streamAt + 3] === 111 /* the o of stdout */ ? 'stdout' : 'stderr';
    const content = bytes.subarray(streamAt + 9, end);
    const whole = bytes[streamAt + 7] === 70; /* F */
    pieces.push({ stream, data: whole ? Buffer.concat([content, newline]) : content });
    start = end + 1;
  }
}

export interface LogRead {
  pieces: LogPiece[];
  nextOffset: number;
}

/** The next decoded stretch of a conmon log, at most about 1 MiB; no pieces at its present end. */
export async function readLog(file: FileHandle, offset: number): Promise<LogRead> {
  const bytes = await readChunk(file, offset);
  const { pieces, used } = decodeLog(bytes);
  return { pieces, nextOffset: offset + used };
}

async function readChunk(file: FileHandle, offset: number): Promise<Buffer> {
  const { size } = await file.stat();
  const want = Math.min(chunkBytes, size - offset);
  if (want <= 0) return Buffer.alloc(0);
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(want), 0, want, offset);
  return buffer.subarray(0, bytesRead);
}
