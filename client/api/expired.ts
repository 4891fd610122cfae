import type { DenvClient } from '../../denv/client';

/** Whether a version that once was there is gone. What is not known because nobody answers counts as there. */
export async function hasExpired(denv: DenvClient, versionId: string): Promise<boolean> {
  try {
    await denv.getVersion(versionId);
    return false;
  } catch (error) {
    return Reflect.get(Object(error), 'code') === 'version_not_found';
  }
}
