import { resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';
import type { CheckpointPolicy } from '../../contracts/task';

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

/** A number that is more than 0. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('Give a number above 0.');
}

export function checkpointPolicy(text: string): CheckpointPolicy {
  if (text === 'step' || text === 'mutating' || text === 'never') return text;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Give step, mutating, never or a whole number of steps.');
}

/** Where an exploration begins. */
export function startingStep(text: string): number | 'last' | 'uncertain' {
  if (text === 'last' || text === 'uncertain') return text;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Give the number of a step, last or uncertain.');
}

/** Where a fork begins. */
export function forkStep(text: string): number | 'last' {
  if (text === 'last') return text;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Give the number of a step, or last.');
}

/** `reward>=1`, the only thing there is to stop at. */
export function stopCondition(text: string): number {
  const found = /^\s*reward\s*>=\s*(-?\d+(?:\.\d+)?)\s*$/.exec(text)?.[1];
  if (found !== undefined) return Number(found);
  throw new InvalidArgumentError("Give 'reward>=1', or another number in it.");
}

/** For an option that may be given again. */
export function collect(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), text];
}

export function collectFolder(text: string, before: string[] | undefined): string[] {
  return collect(resolve(text), before);
}
