import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { WorkflowService } from '@temporalio/client';

/**
 * The label of this deployment's sandboxes: the id of the installation, and that of the Temporal namespace whose workflows
 * they belong to. Another Temporal behind the same installation is another owner, so its reaper takes nothing of this one.
 */
export async function ownerLabel(
  ownerFile: string,
  service: WorkflowService,
  namespace: string,
): Promise<string> {
  return `${installationId(ownerFile)}/${await namespaceId(service, namespace)}`;
}

export async function namespaceId(service: WorkflowService, namespace: string): Promise<string> {
  const { namespaceInfo } = await service.describeNamespace({ namespace });
  if (!namespaceInfo?.id) throw new Error(`Temporal did not tell the id of namespace ${namespace}`);
  return namespaceInfo.id;
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
