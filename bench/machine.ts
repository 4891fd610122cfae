import { cpus, loadavg, release, totalmem } from 'node:os';

export interface Machine {
  cores: number;
  cpu: string;
  kernel: string;
  memoryGb: number;
  /** Load average over one minute when the bench began. */
  load: number;
  node: string;
}

export function thisMachine(): Machine {
  const all = cpus();
  return {
    cores: all.length,
    cpu: all[0]?.model.trim() ?? 'unknown',
    kernel: release(),
    memoryGb: Math.round(totalmem() / 1024 ** 3),
    load: Math.round((loadavg()[0] ?? 0) * 100) / 100,
    node: process.version,
  };
}

export const describeMachine = (machine: Machine): string =>
  `${machine.cores} cores (${machine.cpu}), ${machine.memoryGb} GB, kernel ${machine.kernel}, ` +
  `Node ${machine.node}, load ${machine.load}`;
