import type { Socket } from 'node:net';
import { DenvError } from '../../errors';
import type { HelperClient, NamespaceOf } from '../host/helper-client';
import { HelperError } from '../host/helper-socket';
import { readIfThere } from '../../../machine/files';
import { readStartTime } from '../../../machine/processes';
import type { Containers } from './containers';

/** Connections into containers, made by the host helper inside their network namespace: a port on their own loopback does. */
export function createPorts(containers: Containers, helper: HelperClient) {
  const known = new Map<string, NamespaceOf>();

  /** The main process of a sandbox's container. @throws DenvError sandbox_stopped, capability_missing */
  async function findProcess(sandboxId: string, what: string): Promise<NamespaceOf> {
    const before = known.get(sandboxId);
    if (before && readStartTime(before.pid) === before.start) return before;
    const found = await containers.inspect(sandboxId);
    const pid = found?.State.Running ? found.State.Pid : 0;
    const start = pid > 0 ? readStartTime(pid) : null;
    if (!found || pid === 0) {
      const tail = found ? await containers.tail(sandboxId) : '';
      const how = found ? `its process ended with exit code ${found.State.ExitCode}` : 'it is gone';
      const said = tail === '' ? '' : `; its last output: ${tail}`;
      throw new DenvError('sandbox_stopped', `${what} of sandbox ${sandboxId}: ${how}${said}`);
    }
    if (start === null || !isOfContainer(pid, found.Id)) {
      throw new DenvError(
        'capability_missing',
        `${what} of sandbox ${sandboxId}: the Docker engine’s containers are not processes of this host, so they cannot be reached`,
      );
    }
    known.set(sandboxId, { pid, start });
    return { pid, start };
  }

  async function connect(sandboxId: string, port: number): Promise<Socket> {
    const what = `port ${port}`;
    const where = await findProcess(sandboxId, what);
    try {
      return await helper.connect(where, port);
    } catch (error) {
      if (!(error instanceof HelperError)) throw error;
      // Between the look and the connection it may have ended.
      known.delete(sandboxId);
      if (error.code === 'gone') await findProcess(sandboxId, what);
      throw new DenvError('unavailable', `${what} of sandbox ${sandboxId}: ${error.message}`, {
        cause: error,
      });
    }
  }

  return { connect, forget: (sandboxId: string) => known.delete(sandboxId) };
}

/** An engine in another pid namespace or machine names pids that are somebody else's here. */
const isOfContainer = (pid: number, containerId: string): boolean =>
  (readIfThere(`/proc/${pid}/cgroup`) ?? '').includes(containerId);
