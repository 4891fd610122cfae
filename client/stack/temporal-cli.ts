import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { UserError } from '../errors';

/**
 * The Temporal command: on PATH, or where scripts/setup put it.
 * @throws UserError
 */
export function findTemporalCli(searchPath: string, toolCache: string): string {
  for (const folder of [...searchPath.split(delimiter), toolCache]) {
    if (folder === '') continue;
    const file = join(folder, 'temporal');
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // Not here; the next folder may have it.
    }
  }
  throw new UserError(
    `there is no \`temporal\` command on PATH or in ${toolCache}\n` +
      'Bring it with: npm run setup\nOr use a Temporal server of your own: TEMPORAL_ADDRESS=host:port rollouts up',
  );
}
