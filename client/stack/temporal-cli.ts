import { delimiter } from 'node:path';
import { UserError } from '../errors';
import { findProgram } from './programs';

/**
 * The Temporal command: on PATH, or where scripts/setup put it.
 * @throws UserError
 */
export function findTemporalCli(searchPath: string, toolCache: string): string {
  const found = findProgram('temporal', searchPath + delimiter + toolCache);
  if (found !== null) return found;
  throw new UserError(
    `there is no \`temporal\` command on PATH or in ${toolCache}\n` +
      'Bring it with: npm run setup\nOr use a Temporal server of your own: TEMPORAL_ADDRESS=host:port rollouts up',
  );
}
