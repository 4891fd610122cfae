import type { HudRuntimeConfig } from '../../tasks/hud/row';
import type { Placed, PlacementTask } from '../../tasks/placement';

/** What `run` was told of runtimes. Each is refused where a runtime has no use for it. */
export interface RuntimeOptions {
  runtime?: string;
  placement?: string;
  image?: string;
  command?: string;
  env?: string;
  shared?: number;
}

/** A runtime as it was asked for: `local:env.py` is its kind and an argument. */
export interface AskedRuntime {
  words: string;
  argument: string | null;
  /** Where relative paths of the argument start. */
  from: string;
  /** What to throw when the words themselves are at fault: whoever wrote them is told. */
  refuse(message: string, remedy: string): Error;
}

export interface RuntimeQuestion {
  task: PlacementTask;
  asked: AskedRuntime;
  /** The row's own. */
  config: HudRuntimeConfig | null | undefined;
  options: RuntimeOptions;
  /** Python files beside the taskset that may define its environment. */
  beside: string[];
}

/** A kind of place where HUD environments run: a name that HUD users know, and what stands behind it here. */
export interface RuntimeKind {
  name: string;
  syntax: string;
  /** The denv server's target that it places on; null: nothing can be placed there from here. */
  target: string | null;
  what: string;
  /** What is not there for it, beside a denv server with its target; null when that is enough. */
  missing: () => string | null;
  /** Options of `run` that it has a use for. */
  takes: ('image' | 'command' | 'env' | 'shared')[];
  /** @throws PlacementError, UsageError */
  place(question: RuntimeQuestion): Promise<Placed>;
}
