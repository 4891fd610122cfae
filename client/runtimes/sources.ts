import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, resolve } from 'node:path';

/** Python files beside a taskset that HUD users would take for its environment: env.py, and one of the taskset's own name. */
export function sourcesBeside(taskset: string): string[] {
  const file = resolve(taskset);
  const names = ['env', basename(file, extname(file))];
  return names.map((name) => join(dirname(file), `${name}.py`)).filter((path) => existsSync(path));
}

/** Names of the environments that a Python file defines, as far as that shows in its text. */
export function environmentsIn(file: string): string[] {
  return definitionsIn(readFileSync(file, 'utf8')).flatMap(({ name }) => (name ? [name] : []));
}

/**
 * What a source has for an environment of another name than was asked for: told only where every definition in it shows its name,
 * and null where one of that name may be there all the same. HUD takes the name of the variable too.
 */
export function otherEnvironments(source: string, wanted: string): string[] | null {
  const files = statSync(source).isDirectory()
    ? readdirSync(source)
        .filter((name) => name.endsWith('.py'))
        .map((name) => join(source, name))
    : [source];
  const found = files.flatMap((file) => definitionsIn(readFileSync(file, 'utf8')));
  const names = found.flatMap(({ name }) => (name ? [name] : []));
  if (names.length === 0 || names.length < found.length) return null;
  if (found.some(({ name, variable }) => name === wanted || variable === wanted)) return null;
  return names;
}

/** Calls of `Environment(…)`: the variable it is bound to, and its name where that is a plain text. */
function definitionsIn(text: string): { name: string | null; variable: string | null }[] {
  const calls = text.matchAll(
    /(?:(\w+)\s*=\s*)?\bEnvironment\((?:\s*(?:name\s*=\s*)?(["'])([^"'\n]+)\2)?/g,
  );
  return [...calls].map(([, variable, , name]) => ({
    name: name ?? null,
    variable: variable ?? null,
  }));
}
