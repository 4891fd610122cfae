import { resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';

export function portNumber(text: string): number {
  return wholeNumber(text, 0, 65_535);
}

/** A parser for whole numbers within bounds. */
export const wholeNumberFrom = (min: number, max: number) => (text: string) =>
  wholeNumber(text, min, max);

function wholeNumber(text: string, min: number, max: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`);
}

export function choice<T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const found = values.find((value) => value === text);
    if (found === undefined) throw new InvalidArgumentError(`Give one of: ${values.join(', ')}.`);
    return found;
  };
}

/** For an option that may be given again. */
export function collect(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), text];
}

export function collectFolder(text: string, before: string[] | undefined): string[] {
  return collect(resolve(text), before);
}
