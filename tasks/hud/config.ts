import type { Environment, Limits } from '../../contracts/task';
import type { HudRuntimeConfig } from './row';
import type { Complaint, FieldPath } from '../refusals';

/**
 * HUD's merge: what a row sets replaces the base's field whole (so a row with one resource loses the base's others), null
 * clears it, and an image puts away a Compose project as that puts away an image.
 */
export function mergeRuntimeConfig(
  base: HudRuntimeConfig,
  row: HudRuntimeConfig | null | undefined,
): HudRuntimeConfig {
  if (!row) return base;
  const kept = { ...base };
  if (isSet(row.image)) kept.compose = null;
  else if (isSet(row.compose)) kept.image = null;
  return { ...kept, ...row };
}

/** The caps that a runtime configuration asks of a sandbox, under the names of our own tasks. */
export function toCaps({ resources }: HudRuntimeConfig): Environment['caps'] {
  const { cpu, memory_mb, storage_mb, pids, diskMb } = resources ?? {};
  const caps = {
    ...(isSet(cpu) ? { cpus: cpu } : {}),
    ...(isSet(memory_mb) ? { memoryMb: memory_mb } : {}),
    ...(isSet(pids) ? { pids } : {}),
    ...(isSet(diskMb ?? storage_mb) ? { diskMb: diskMb ?? storage_mb ?? undefined } : {}),
  };
  return Object.keys(caps).length > 0 ? caps : undefined;
}

/** Complains of what a target cannot honour of a runtime configuration. */
export function configComplaints(config: HudRuntimeConfig, target: string): Complaint[] {
  const complaints: Complaint[] = [];
  const complain = (path: FieldPath, message: string, remedy: string) =>
    complaints.push({ path: ['runtime_config', ...path], message, remedy });
  const { image, compose, resources } = config;
  const { gpu, tpu, os, storage_mb, diskMb } = resources ?? {};
  if (isSet(image) && isSet(compose)) {
    complain(['compose'], 'either image or compose, not both', 'keep the image');
  } else if (isSet(compose)) {
    complain(
      ['compose'],
      'Compose projects are not supported',
      'give an `image`, or serve it yourself and attach with --runtime tcp://host:port',
    );
  }
  if (isSet(gpu)) complain(['resources', 'gpu'], `target ${target} has no GPUs`, 'leave it out');
  if (isSet(tpu)) complain(['resources', 'tpu'], `target ${target} has no TPUs`, 'leave it out');
  if (isSet(os) && os !== 'linux') {
    complain(['resources', 'os'], `${JSON.stringify(os)}: sandboxes are Linux`, 'leave it out');
  }
  if (isSet(storage_mb) && isSet(diskMb)) {
    complain(['resources', 'diskMb'], 'the same as `storage_mb`', 'keep one of them');
  }
  if (target === 'tcp') {
    for (const path of askedOfTcp(config)) {
      const message = 'nothing is started at an address that is attached to';
      complain(path, message, 'leave it out, or choose another runtime');
    }
    return complaints;
  }
  const disk = isSet(diskMb) ? 'diskMb' : isSet(storage_mb) ? 'storage_mb' : null;
  if (disk !== null) {
    const message = `target ${target} cannot cap the disk of one sandbox`;
    complain(['resources', disk], message, 'leave it out');
  }
  return complaints;
}

function askedOfTcp({ image, resources, egress }: HudRuntimeConfig): FieldPath[] {
  const fields = ['cpu', 'memory_mb', 'storage_mb', 'pids', 'diskMb'] as const;
  return [
    ...(isSet(image) ? [['image']] : []),
    ...fields.flatMap((field) => (isSet(resources?.[field]) ? [['resources', field]] : [])),
    ...(isSet(egress) ? [['egress']] : []),
  ];
}

/** Limits that end before they can be met are a mistake that would show late. */
export function nestingComplaint(
  limits: Pick<Limits, 'agentTimeoutS' | 'runTimeoutS'>,
  names: { agent: FieldPath; run: string },
): Complaint[] {
  const { agentTimeoutS: agent, runTimeoutS: run } = limits;
  if (agent === undefined || run === undefined || agent < run) return [];
  const message = `agent timeout (${agent}s) must be less than ${names.run} (${run}s)`;
  return [{ path: names.agent, message, remedy: 'shorten one, or lengthen the other' }];
}

export function isSet<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined;
}
