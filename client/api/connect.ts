import { Client, Connection } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { createDenvClient } from '../../denv/client';
import type { DenvClient } from '../../denv/client';
import { createDocuments } from '../../rollouts/documents';
import type { Documents } from '../../rollouts/documents';
import type { BlobStore } from '../../stores/blobs';
import { createDirectoryBlobs } from '../../stores/directory-blobs';
import type { Ledger } from '../../stores/ledger';
import { openLedger } from '../../stores/sqlite/ledger';
import { ownerLabel } from '../../rollouts/owner';
import { readNamespaceId } from '../../temporal/states';
import { reasonOf, StackDownError, UserError } from '../errors';
import { ensureDenvKey } from '../../rollouts/home';
import type { Settings } from '../settings';
import { hasSearchAttributes } from './search-attributes';
import { readStackState } from '../stack/state';

/** What the typed functions of this folder work with. */
export interface Rollouts {
  temporal: Client;
  denv: DenvClient;
  ledger: Ledger;
  blobs: BlobStore;
  documents: Documents;
  taskQueue: string;
  owner: string;
  namespace: string;
  /** The namespace has the search attributes of rollouts. */
  searchAttributes: boolean;
  /** Base address of Temporal's web page; null where nobody told. */
  temporalUi: string | null;
  close(): Promise<void>;
}

/** What is recorded, without a running stack: enough for `list` and for finished rollouts. */
export interface Records {
  ledger: Ledger;
  blobs: BlobStore;
  documents: Documents;
  close(): Promise<void>;
}

export async function openRecords(settings: Settings): Promise<Records> {
  const ledger = await openLedger(settings.paths.ledger);
  const blobs = createDirectoryBlobs(settings.paths.blobs);
  return { ledger, blobs, documents: createDocuments(blobs), close: () => ledger.close() };
}

/**
 * Connects to the running stack: the one this home's supervisor keeps, or what TEMPORAL_ADDRESS and DENV_SERVER name.
 * @throws StackDownError, UserError
 */
export async function connect(settings: Settings): Promise<Rollouts> {
  const { connection, temporalUi } = await connectTemporal(settings);
  const namespaceId = await readNamespaceId(connection.workflowService, settings.namespace);
  const records = await openRecords(settings);
  return {
    temporal: new Client({ connection, namespace: settings.namespace }),
    denv: connectDenv(settings),
    ledger: records.ledger,
    blobs: records.blobs,
    documents: records.documents,
    taskQueue: settings.taskQueue,
    owner: ownerLabel(settings.paths.owner, namespaceId),
    namespace: settings.namespace,
    searchAttributes: await hasSearchAttributes(connection, settings.namespace),
    temporalUi,
    async close() {
      await records.close();
      await connection.close();
    },
  };
}

async function connectTemporal(settings: Settings) {
  const stack = readStackState(settings.paths.run);
  const address = settings.temporalAddress ?? stack?.temporal.address;
  if (address === undefined) {
    throw new StackDownError(`the stack of ${settings.paths.home} is not running`);
  }
  // The environment's TLS and API key settings belong to the server that the environment names.
  const options = settings.temporalAddress ? loadClientConnectConfig().connectionOptions : {};
  try {
    const connection = await Connection.connect({
      ...options,
      address,
      connectTimeout: '5 seconds',
    });
    return { connection, temporalUi: stack?.temporal.ui ?? null };
  } catch (error) {
    const what = `Temporal at ${address} does not answer: ${reasonOf(error)}`;
    throw settings.temporalAddress ? new UserError(what) : new StackDownError(what);
  }
}

/** Where a denv server answers, and to which key. */
export interface DenvPlace {
  server: string;
  apiKey: string;
}

export function connectDenv(settings: Settings): DenvClient {
  return createDenvClient(denvPlace(settings));
}

/** @throws StackDownError, UserError */
export function denvPlace(settings: Settings): DenvPlace {
  const server = settings.denvServer ?? readStackState(settings.paths.run)?.denv.address;
  if (server === undefined) {
    throw new StackDownError(`the stack of ${settings.paths.home} is not running`);
  }
  if (settings.denvServer && settings.denvApiKey === null) {
    throw new UserError(`DENV_SERVER is ${server}, and its key is needed in DENV_API_KEY`);
  }
  return { server, apiKey: settings.denvApiKey ?? ensureDenvKey(settings.paths) };
}
