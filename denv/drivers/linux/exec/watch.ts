import { watch } from 'node:fs';

/** Watches miss things, and a holder that is killed changes no file. */
const pollMs = 500;

/** Calls `look` now, whenever something in the directory changes, and twice a second. Returns what stops it. */
export function watchDirectory(dir: string, look: () => void): () => void {
  const watcher = watch(dir, look);
  watcher.on('error', () => undefined); // The poll goes on.
  const poll = setInterval(look, pollMs);
  const stop = () => {
    watcher.close();
    clearInterval(poll);
  };
  look();
  return stop;
}
