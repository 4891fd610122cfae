import type { Settings } from './settings';

/** What every command is given: it reads the environment nowhere else. */
export interface Context {
  settings: Settings;
  env: NodeJS.ProcessEnv;
  /** A line of the command's answer. */
  print: (line: string) => void;
  /** A line about how it goes, which is no part of the answer. */
  note: (line: string) => void;
  /** The exit code once everything is done; 0 when nobody says. */
  exitWith: (code: number) => void;
}
