import getPort from 'get-port';
import { UserError } from '../errors';

/** The ports of a stack that nobody chose others for. */
export const usualPorts = { temporal: 7233, ui: 8233, denv: 7300 };

/** What is to listen on a port, and the option that chooses it: for the message. */
interface Purpose {
  what: string;
  flag: string;
}

/**
 * Returns a port on loopback that is free now, and gives it to no other service of this process. A port of 0 is any that is free.
 * @param sayOther  told when the port is taken and another one is returned; left out, that is refused
 * @throws UserError when the port is taken
 */
export async function claimPort(
  port: number,
  { what, flag }: Purpose,
  sayOther?: (line: string) => void,
): Promise<number> {
  const free = await getPort({ port, host: '127.0.0.1' });
  if (port === 0 || free === port) return free;
  if (!sayOther) {
    throw new UserError(
      `port ${port} for ${what} is taken by another program\nGive another one with ${flag} N, or ${flag} 0 for any that is free`,
    );
  }
  sayOther(`port ${port} for ${what} is taken; using port ${free}`);
  return free;
}
