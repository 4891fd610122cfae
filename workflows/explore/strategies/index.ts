import { flat } from './flat';
import type { Strategy } from './strategy';
import { tree } from './tree';
import { value } from './value';

/** Every strategy by the name that `--strategy` takes. */
export const strategies: Record<string, Strategy> = { flat, tree, value };
