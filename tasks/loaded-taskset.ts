import type { Task } from '../contracts/task';
import type { LocalTree, Place } from './placement';
import type { ImagePlaces } from './target-limits';

/** A taskset that was read and found sound. */
export interface LoadedTaskset {
  name: string;
  /** Paths in `files[].from` start here. */
  folder: string;
  /** In the order of the file, defaults merged in. */
  tasks: Task[];
  /** Trees of this machine that a runtime adds to a task's own files, by the task's id. */
  trees?: Map<string, LocalTree[]>;
  /** What a person should know about the taskset, though nothing is refused for it. */
  notes?: string[];
}

/** Where rows come from, and what is asked about them. */
export interface LoadContext {
  file: string;
  folder: string;
  places: ImagePlaces;
  place: Place | undefined;
}
