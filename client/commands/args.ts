import { resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';
import type { CheckpointPolicy, ContinuationWay } from '../../contracts/task';

/** Returns a parser for whole numbers within bounds. */
export const wholeNumberFrom = (min: number, max: number) => (text: string) => {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`);
};

export const portNumber = wholeNumberFrom(0, 65_535);

/** Returns a parser for one of a closed set of words. */
export function choice<T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const found = values.find((value) => value === text);
    if (found === undefined) throw new InvalidArgumentError(`Give one of: ${values.join(', ')}.`);
    return found;
  };
}

/** Parses a number that is more than 0. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('Give a number above 0.');
}

/** Parses how a continuation begins. */
export const continuationWay = choice<ContinuationWay>(['snapshot', 'replay']);

/** Parses before which steps a checkpoint is taken. */
export function checkpointPolicy(text: string): CheckpointPolicy {
  if (text === 'step' || text === 'mutating' || text === 'never') return text;
  if (isStep(text)) return Number(text);
  throw new InvalidArgumentError('Give step, mutating, never or a whole number of steps.');
}

/** Parses where an exploration begins. */
export function startingStep(text: string): number | 'last' | 'uncertain' {
  if (text === 'last' || text === 'uncertain') return text;
  if (isStep(text)) return Number(text);
  throw new InvalidArgumentError('Give the number of a step, last or uncertain.');
}

/** Parses where a fork begins. */
export function forkStep(text: string): number | 'last' {
  if (text === 'last') return text;
  if (isStep(text)) return Number(text);
  throw new InvalidArgumentError('Give the number of a step, or last.');
}

/** Parses `reward>=1`, the only condition there is. */
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

function isStep(text: string): boolean {
  return /^[1-9]\d{0,4}$/.test(text);
}
