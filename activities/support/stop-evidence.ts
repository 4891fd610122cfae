import { StopEvidence } from '../../contracts/denv';
import type { DenvClient } from '../../denv/client';
import { DenvError } from '../../denv/errors';

/**
 * Does `work` on a sandbox; when that is stopped, the error says what stopped it, so that a rollout can tell the agent's doing
 * from the host's. Without any evidence the agent gets no second try: it counts as stopped from inside.
 */
export async function withEvidence<T>(
  denv: DenvClient,
  sandboxId: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof DenvError) || error.code !== 'sandbox_stopped') throw error;
    if (StopEvidence.safeParse(error.details?.stopped).success) throw error;
    const { stopped } = await denv.getSandbox(sandboxId);
    const evidence: StopEvidence = stopped ?? {
      by: 'inside',
      what: 'init_ended',
      at: new Date().toISOString(),
      detail: 'no evidence',
    };
    throw new DenvError('sandbox_stopped', error.message, {
      cause: error,
      details: { ...error.details, stopped: evidence },
    });
  }
}

/** What ended a sandbox, when that was something in it; null for any other error. */
export function stoppedInside(error: unknown): StopEvidence | null {
  if (!(error instanceof DenvError) || error.code !== 'sandbox_stopped') return null;
  const parsed = StopEvidence.safeParse(error.details?.stopped);
  return parsed.success && parsed.data.by === 'inside' ? parsed.data : null;
}
