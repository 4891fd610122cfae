import type { TreeSource } from '../preparation';

/** Where the routes lie that take a sandbox and a kept version alike: `<path>/:id/fork`, `<path>/:id/verify`. */
export const sources: { path: string; toSource: (id: string) => TreeSource }[] = [
  { path: '/v1/envs', toSource: (sandboxId) => ({ sandboxId }) },
  { path: '/v1/versions', toSource: (versionId) => ({ versionId }) },
];
