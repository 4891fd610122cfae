import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { DenvError } from '../../errors';
import type { ContainerResult, ContainerSpec } from '../driver';
import { requireSpace } from './data-fs';
import { isThere } from '../../../machine/files';
import { checkId } from '../host/layout';
import { containerConfig } from './oci';
import { forgetContainer, runcArgs, runcError } from './runc';
import { containerPrefix } from './sandboxes';
import type { HostParts } from './sandboxes';

const tailBytes = 8 * 1024;

/** Throw-away containers over a snapshot of a base: verifiers. */
export function createContainers({ layout, helper, cgroups, nodePath }: HostParts) {
  const treeOf = (id: string) => path.join(layout.containers, checkId(id));
  const cgroupOf = (id: string) => `${layout.containerCgroup}/${checkId(id)}`;
  const bundleOf = (id: string) => path.join(layout.runtimeDir, 'containers', checkId(id));

  async function run(spec: ContainerSpec): Promise<ContainerResult> {
    const id = spec.containerId;
    const begin = performance.now();
    requireSpace(layout);
    if (isThere(treeOf(id)) || cgroups.exists(cgroupOf(id))) await remove(id);
    mkdirSync(bundleOf(id), { recursive: true, mode: 0o700 });
    try {
      const where = { rootfs: treeOf(id), cgroup: cgroupOf(id), nodePath };
      const config = JSON.stringify(containerConfig(spec, where));
      writeFileSync(path.join(bundleOf(id), 'config.json'), config, { mode: 0o600 });
      await helper.copy(path.join(layout.bases, checkId(spec.base)), treeOf(id));
      return await runToEnd(spec, begin);
    } finally {
      await remove(id);
    }
  }

  async function runToEnd(spec: ContainerSpec, begin: number): Promise<ContainerResult> {
    const id = spec.containerId;
    const bundle = bundleOf(id);
    const log = path.join(bundle, 'runc.log');
    const args = [...runcArgs(layout, log), 'run', '--bundle', bundle, `${containerPrefix}${id}`];
    const child = spawn('runc', args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const started = performance.now();
    const tail = createTail(tailBytes);
    const ended = new Promise<number | null>((resolve, reject) => {
      child.on('error', reject).on('close', resolve);
    });
    for (const stream of [child.stdout, child.stderr] as Readable[]) stream.on('data', tail.add);

    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      // runc may not have put the process into its cgroup yet, and it does not heed a signal in every state.
      void cgroups.kill(cgroupOf(id)).finally(() => child.kill('SIGKILL'));
    }, spec.timeoutS * 1000);
    const code = await ended.finally(() => clearTimeout(timer));
    const failure = timedOut ? null : runcError(log);
    if (failure !== null && !/exec: |executable file|chdir to cwd/.test(failure)) {
      throw new DenvError('internal', `runc could not run ${id}: ${failure}`);
    }
    if (failure !== null) tail.add(Buffer.from(`${failure}\n`));
    return {
      exitCode: timedOut ? null : failure === null ? code : 127,
      timedOut,
      outputTail: tail.text(),
      startMs: started - begin,
      runMs: performance.now() - started,
    };
  }

  /** Removing what is not there is success. */
  async function remove(id: string): Promise<void> {
    const cgroup = cgroupOf(id);
    if (cgroups.exists(cgroup)) {
      await cgroups.kill(cgroup);
      await cgroups.remove(cgroup);
    }
    await forgetContainer(layout, `${containerPrefix}${id}`);
    await helper.deleteSubvolume(treeOf(id));
    await rm(bundleOf(id), { recursive: true, force: true });
  }

  function list(): string[] {
    return [
      ...new Set([...readdirSync(layout.containers), ...cgroups.children(layout.containerCgroup)]),
    ];
  }

  return { run, remove, list };
}

/** The last bytes of all that is added. */
function createTail(limit: number) {
  let kept = Buffer.alloc(0);
  return {
    add: (data: Buffer): void => {
      kept = Buffer.concat([kept, data]);
      if (kept.length > limit) kept = kept.subarray(kept.length - limit);
    },
    text: (): string => kept.toString('utf8'),
  };
}
