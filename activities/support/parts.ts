import type { DenvClient } from '../../denv/client';
import type { ModelClient } from '../../models/model';
import type { BlobStore } from '../../stores/blobs';
import type { Ledger } from '../../stores/ledger';
import type { Documents } from '../../rollouts/documents';

/** What activities are made of; a test hands in fakes. */
export interface Dependencies {
  denv: DenvClient;
  models: ModelClient;
  blobs: BlobStore;
  ledger: Ledger;
  /** Label of every sandbox: the deployment whose reaper answers for it. */
  owner: string;
}

export interface Parts extends Dependencies {
  documents: Documents;
}
