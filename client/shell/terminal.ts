import { once } from 'node:events';
import type { Writable } from 'node:stream';
import type { Attached, AttachOutputs } from './attach';

/** Where a command of somewhere else reads from and writes to here. */
export interface Terminal {
  /** Both ends are a terminal of a person; else they are plain streams. */
  tty: { cols: number; rows: number } | null;
  outputs: AttachOutputs;
  /**
   * Carries what is typed until `stop` is called: keys as they are where there is a terminal, Ctrl-C among them.
   * @returns `stop`, after which the terminal is as it was
   */
  feed(attached: Attached): () => void;
}

/** The terminal or the streams of this process. */
export function ownTerminal(): Terminal {
  const { stdin, stdout, stderr } = process;
  const size = () => ({ cols: stdout.columns, rows: stdout.rows });
  const isTty = stdin.isTTY && stdout.isTTY;
  return {
    tty: isTty ? size() : null,
    outputs: { stdout: (data) => write(stdout, data), stderr: (data) => write(stderr, data) },
    feed(attached) {
      const onResize = (): void => attached.resize(size());
      const onData = (data: Buffer): void => {
        stdin.pause();
        void attached.send(data).then(() => stdin.resume());
      };
      const onEnd = (): void => attached.eof();
      if (isTty) {
        stdin.setRawMode(true);
        stdout.on('resize', onResize);
      }
      stdin.on('data', onData);
      stdin.on('end', onEnd);
      return () => {
        stdin.off('data', onData);
        stdin.off('end', onEnd);
        stdout.off('resize', onResize);
        if (isTty) stdin.setRawMode(false);
        // Nothing else reads it, and an open one would keep the process.
        stdin.destroy();
      };
    },
  };
}

async function write(to: Writable, data: Buffer): Promise<void> {
  if (!to.write(data)) await once(to, 'drain');
}
