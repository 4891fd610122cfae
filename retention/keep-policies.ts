import { z } from 'zod';
import { KeepPolicy } from '../contracts/task';
import { findInputsBeside } from '../rollouts/inputs';
import type { BlobStore } from '../stores/blobs';
import type { Ledger } from '../stores/ledger';

/** Null where nobody said; `unknown` where nobody knows what a rollout was started with. */
export type Keep = KeepPolicy | 'unknown' | null;

const Input = z.object({ rolloutId: z.string(), keep: KeepPolicy.optional() });

/** What rollouts were started with, as far as retention needs it: it never changes, so it is read once. */
export interface KeepPolicies {
  of(rollout: { rolloutId: string; batchId: string }): Promise<Keep>;
}

export function createKeepPolicies({
  blobs,
  ledger,
}: {
  blobs: BlobStore;
  ledger: Pick<Ledger, 'batch'>;
}): KeepPolicies {
  const known = new Map<string, Keep>();
  return {
    async of({ rolloutId, batchId }) {
      const before = known.get(rolloutId);
      if (before !== undefined) return before;
      const inputs = await findInputsBeside({ blobs, ledger }, { rolloutId, batchId }, Input);
      if (inputs === null) return 'unknown';
      for (const input of inputs) known.set(input.rolloutId, input.keep ?? null);
      const found = known.get(rolloutId);
      return found === undefined ? 'unknown' : found;
    },
  };
}
