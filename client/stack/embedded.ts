import { findProgram } from '../../machine/programs';

/** What the linux driver runs. */
const programs = ['runc', 'conmon', 'mkfs.btrfs', 'ip', 'nsenter', 'python3', 'tar'];

/** Why this machine cannot run the embedded denv server, and what to do; null when it can. */
export function embeddedTrouble(searchPath: string): { what: string; remedy: string } | null {
  const other = 'use the denv server of another machine (DENV_SERVER, DENV_API_KEY)';
  if (process.platform !== 'linux') {
    return { what: 'the embedded denv server makes sandboxes on Linux alone', remedy: other };
  }
  if (process.getuid?.() !== 0) {
    return {
      what: 'the embedded denv server needs root to make sandboxes',
      remedy: `run rollouts up as root, or ${other}`,
    };
  }
  const missing = programs.filter(
    (name) => findProgram(name, `${searchPath}:/usr/sbin:/sbin`) === null,
  );
  if (missing.length === 0) return null;
  return {
    what: `the embedded denv server needs programs that are missing: ${missing.join(', ')}`,
    remedy: 'bring them with: npm run setup',
  };
}
