import { runCommandLine } from './command-line';
import { settingsFrom } from './settings';

void runCommandLine(process.argv.slice(2), {
  settings: settingsFrom(process.env),
  env: process.env,
  print: (line) => console.log(line),
  note: (line) => console.error(line),
  exitWith: (code) => {
    process.exitCode = code;
  },
});
