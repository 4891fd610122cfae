import { formatReward, oneLine } from './table';
import type { TreePoint, TreeRollout } from '../api/tree';

/** Returns a tree as a person reads it: a line for each rollout, and for each step that others continue from. */
export function treeLines(tree: TreeRollout): string[] {
  return [`${tree.rolloutId}  ${rolloutWords(tree)}`, ...pointLines(tree, '')];
}

function pointLines({ rolloutId, points }: TreeRollout, indent: string): string[] {
  return points.flatMap((point, i) => {
    const last = i === points.length - 1;
    const head = `${indent}${last ? '└─ ' : '├─ '}before step ${point.step}  ${pointWords(point)}`;
    const below = indent + (last ? '   ' : '│  ');
    return [head, ...continuationLines(rolloutId, point, below)];
  });
}

function continuationLines(parent: string, { continuations }: TreePoint, indent: string): string[] {
  return continuations.flatMap((child, i) => {
    const last = i === continuations.length - 1;
    const action = child.action === null ? '' : `  ${oneLine(child.action, 80)}`;
    const head = `${indent}${last ? '└─ ' : '├─ '}${shortId(parent, child.rolloutId)}  ${rolloutWords(child)}${action}`;
    return [head, ...pointLines(child, indent + (last ? '   ' : '│  '))];
  });
}

export function pointWords({ value, visits, scored, version }: TreePoint): string {
  const worth = value === null ? 'no value yet' : `value ${formatReward(value)}`;
  const of = scored === visits ? '' : `, ${scored} scored`;
  return `${worth}, ${visits} ${visits === 1 ? 'visit' : 'visits'}${of}  ${version ?? 'by replay'}`;
}

export function rolloutWords({ state, reward }: TreeRollout): string {
  return reward === null ? state : `reward ${formatReward(reward)}`;
}

/** Returns an id without the part that it shares with the id above it. */
export function shortId(parent: string, id: string): string {
  const shared = longestShared(parent.split('/'), id.split('/'));
  return id.split('/').slice(shared).join('/') || id;
}

function longestShared(a: string[], b: string[]): number {
  let shared = 0;
  while (shared < a.length && a[shared] === b[shared]) shared += 1;
  return shared;
}
