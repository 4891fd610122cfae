import { createHash } from 'node:crypto';

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 24);

/** A sandbox's id is made from its create key, so both ends know it before the reply. */
export const sandboxIdOf = (createKey: string): string => `sb_${digest(createKey)}`;

/** The key under which the n-th child of a fork is created. */
export const forkChildKey = (forkKey: string, n: number): string => `${forkKey}#${n}`;

/** A version's id is made from the key of the operation that takes it. */
export const versionIdOf = (key: string): string => `ver_${digest(key)}`;

/** Names an exec's files and cgroup. */
export const execIdOf = (key: string): string => `x${digest(key)}`;
