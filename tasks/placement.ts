import type { Environment, FilesRef } from '../contracts/task';
import type { BlobStore } from '../stores/blobs';
import type { HudRuntimeConfig } from './hud/row';
import type { Complaint } from './refusals';

/** What decides where a task runs. */
export interface PlacementTask {
  id: string;
  /** Name of its HUD environment; null where the task does not say. */
  env: string | null;
  /** The environment's template. */
  task: string;
  args: Record<string, unknown>;
  tags: Record<string, string>;
  /** The image that its row asks for. */
  image: string | null;
  /** The row's own `runtime`. */
  runtime: string | null;
}

/** A tree of this machine that goes into a sandbox, packed when the rollouts are planned. */
export interface LocalTree {
  pack(blobs: BlobStore): Promise<FilesRef>;
}

/** Where a task runs. */
export interface Placed {
  environment: Environment;
  trees: LocalTree[];
  /** The row's own runtime configuration, laid over what was asked for. */
  config: HudRuntimeConfig;
}

/** @throws PlacementError where the row is at fault */
export type Place = (
  task: PlacementTask,
  config: HudRuntimeConfig | null | undefined,
) => Promise<Placed>;

/** A task that cannot be placed as its row says. */
export class PlacementError extends Error {
  override readonly name = 'PlacementError';

  constructor(readonly complaint: Complaint) {
    super(complaint.message);
  }
}
