import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The file that a command's name stands for in a list of folders as PATH has it; null when there is none. */
export function findProgram(name: string, searchPath = process.env.PATH ?? ''): string | null {
  for (const folder of searchPath.split(delimiter)) {
    if (folder === '') continue;
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // Not here; the next folder may have it.
    }
  }
  return null;
}
