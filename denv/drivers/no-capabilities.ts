import type { Target } from '../../contracts/denv';
import type { DenvError } from '../errors';

/** The row of a target that can do nothing: what it has earned is put over it. */
export function bareTarget(name: string): Target {
  return {
    name,
    missing: null,
    fork: 'none',
    memoryFork: false,
    egressDeny: false,
    caps: { cpus: false, memoryMb: false, pids: false, diskMb: false },
    gpu: false,
    exec: false,
    stdio: false,
    publish: false,
    attach: false,
    userNamespaces: false,
    separateVerify: false,
    images: [],
    notes: [],
  };
}

/** Methods of a driver for what its target has not, refused by name. */
export function lacking(missing: (what: string) => DenvError) {
  return {
    lacks: (what: string) => (): Promise<never> => Promise.reject(missing(what)),
    lacksNow: (what: string) => (): never => {
      throw missing(what);
    },
  };
}
