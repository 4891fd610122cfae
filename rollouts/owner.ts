import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * The label of this deployment's sandboxes: the id of the installation, and that of the Temporal namespace whose workflows
 * they belong to. Another Temporal behind the same installation is another owner, so its reaper takes nothing of this one.
 */
export function ownerLabel(ownerFile: string, namespaceId: string): string {
  return `${installationId(ownerFile)}/${namespaceId}`;
}

/** Whether a label is of that namespace: of another one's rollouts, a Temporal can only say that it does not know them. */
export function isOwnerIn(namespaceId: string, owner: string): boolean {
  return owner.endsWith(`/${namespaceId}`);
}

/** Made once, by set-up or by the first worker. */
function installationId(ownerFile: string): string {
  mkdirSync(dirname(ownerFile), { recursive: true, mode: 0o700 });
  try {
    const made = `own_${randomBytes(8).toString('hex')}\n`;
    writeFileSync(ownerFile, made, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (Reflect.get(Object(error), 'code') !== 'EEXIST') throw error;
  }
  return readFileSync(ownerFile, 'utf8').trim();
}
