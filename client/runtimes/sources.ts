import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, extname, join, resolve } from 'node:path';

/** Python files beside a taskset that HUD users would take for its environment: env.py, and one of the taskset's own name. */
export function sourcesBeside(taskset: string): string[] {
  const file = resolve(taskset);
  const names = ['env', basename(file, extname(file))];
  return names.map((name) => join(dirname(file), `${name}.py`)).filter((path) => existsSync(path));
}

/** Names of the environments that a Python file defines, as far as that shows in its text. */
export function environmentsIn(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const definitions = text.matchAll(/\bEnvironment\(\s*(?:name\s*=\s*)?(["'])([^"'\n]+)\1/g);
  return [...definitions].map(([, , name]) => name ?? '');
}
