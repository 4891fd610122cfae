import type { Settings } from './settings';

/** What every command is given: it reads the environment nowhere else. */
export interface Context {
  settings: Settings;
  env: NodeJS.ProcessEnv;
  /** A line of the command's answer. */
  print: (line: string) => void;
  /** A line about how it goes, which is no part of the answer. */
  note: (line: string) => void;
}
