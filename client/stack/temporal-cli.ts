import { basename, delimiter, dirname, join } from 'node:path';
import type { Settings } from '../settings';
import { UserError } from '../errors';
import { findProgram } from '../../machine/programs';

/** The release of the Temporal command that scripts/setup brings. Newer tags cannot be installed by `go install`. */
export const temporalCliVersion = 'v1.5.1';

/** Where scripts/setup keeps the Temporal command that it brought: a folder for each release. */
export const temporalCliFolder = (toolCache: string): string =>
  join(toolCache, `temporal-${temporalCliVersion}`);

/**
 * Finds the Temporal command: the one that TEMPORAL_CLI names, else the one on PATH, else the one that scripts/setup brought.
 * The command line, the tests and the scripts all ask here.
 * @throws UserError when there is none
 */
export function findTemporalCli(
  settings: Pick<Settings, 'temporalCli' | 'searchPath' | 'toolCache'>,
): string {
  const named = settings.temporalCli;
  if (named !== null) {
    if (findProgram(basename(named), dirname(named)) !== null) return named;
    throw new UserError(`TEMPORAL_CLI names ${named}, which is no program that can be run`);
  }
  const folder = temporalCliFolder(settings.toolCache);
  const found = findProgram('temporal', settings.searchPath + delimiter + folder);
  if (found !== null) return found;
  throw new UserError(
    `there is no \`temporal\` command on PATH or in ${folder}\n` +
      'Bring it with: npm run setup\nOr use a Temporal server of your own: TEMPORAL_ADDRESS=host:port rollouts up',
  );
}
