import type { Socket } from 'node:net';
import { DenvError } from '../../errors';
import { HelperError } from '../host/helper-socket';
import { checkId } from '../host/layout';
import type { HostParts } from './sandboxes';

/** Connections into sandboxes, and ports published on loopback. What is published is in the sandbox's record. */
export function createPorts({ helper, records }: Pick<HostParts, 'helper' | 'records'>) {
  function requireRunning(sandboxId: string, what: string) {
    const record = records.running(checkId(sandboxId));
    if (record) return record;
    throw new DenvError('sandbox_stopped', `${what} of sandbox ${sandboxId}: it does not run`);
  }

  async function connect(sandboxId: string, port: number): Promise<Socket> {
    const { init } = requireRunning(sandboxId, `port ${port}`);
    try {
      return await helper.connect({ pid: init.pid, start: init.start }, port);
    } catch (error) {
      if (!(error instanceof HelperError)) throw error;
      const message = `port ${port} of sandbox ${sandboxId}: ${error.message}`;
      throw new DenvError('unavailable', message, { cause: error });
    }
  }

  async function publish(
    sandboxId: string,
    port: number,
    hostPort: number | null,
  ): Promise<number> {
    const record = requireRunning(sandboxId, `publishing port ${port}`);
    const where = { pid: record.init.pid, start: record.init.start };
    let given: number;
    try {
      given = await helper.publish(sandboxId, where, port, hostPort ?? record.ports[port] ?? null);
    } catch (error) {
      if (!(error instanceof HelperError)) throw error;
      const message = `publishing port ${port} of sandbox ${sandboxId}: ${error.message}`;
      throw new DenvError('unavailable', message, { cause: error });
    }
    const now = records.read(sandboxId) ?? record;
    records.write(sandboxId, { ...now, ports: { ...now.ports, [port]: given } });
    return given;
  }

  /** Adds all published ports to a helper that was started anew. One whose host port was taken meanwhile stays closed. */
  async function republish(): Promise<void> {
    for (const id of records.list()) {
      const record = records.running(id);
      for (const [port, hostPort] of Object.entries(record?.ports ?? {})) {
        await publish(id, Number(port), hostPort).catch(() => undefined);
      }
    }
  }

  return { connect, publish, republish };
}
