import { oneLine } from './table';
import type { TreeRollout } from '../api/tree';
import { pointWords, rolloutWords, shortId } from './tree';

/** Returns a tree for Graphviz: boxes are rollouts, ellipses fork points, and an edge names the continuation's first action. */
export function treeDot(tree: TreeRollout): string[] {
  return [
    'digraph rollouts {',
    '  rankdir=LR;',
    '  node [fontname="sans-serif", fontsize=10];',
    '  edge [fontname="sans-serif", fontsize=9];',
    ...rolloutLines(tree, tree.rolloutId),
    '}',
  ];
}

function rolloutLines(rollout: TreeRollout, label: string): string[] {
  const { rolloutId, points } = rollout;
  const color = rollout.state === 'scored' ? 'black' : 'gray50';
  return [
    `  ${quoted(rolloutId)} [shape=box, color=${color}, label=${quoted(`${label}\n${rolloutWords(rollout)}`)}];`,
    ...points.flatMap((point) => {
      const id = `${rolloutId} before ${point.step}`;
      const words = `step ${point.step}\n${pointWords(point).replace('  ', '\n')}`;
      return [
        `  ${quoted(id)} [shape=ellipse, label=${quoted(words)}];`,
        `  ${quoted(rolloutId)} -> ${quoted(id)} [style=dashed];`,
        ...point.continuations.flatMap((child) => [
          ...rolloutLines(child, shortId(rolloutId, child.rolloutId)),
          `  ${quoted(id)} -> ${quoted(child.rolloutId)} [label=${quoted(oneLine(child.action ?? '', 40))}];`,
        ]),
      ];
    }),
  ];
}

/** Quotes a string of DOT: only a quote ends it, and a backslash begins an escape such as `\n`. */
function quoted(text: string): string {
  const escaped = text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\r?\n/g, '\\n');
  return `"${escaped}"`;
}
