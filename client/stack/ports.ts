import { createServer } from 'node:net';
import { UserError } from '../errors';

/** A port that is free now: the one asked for, or with 0 any. */
export async function claimPort(port: number, what: string, flag: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      const code: unknown = Reflect.get(error, 'code');
      const why =
        code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be used (${String(code)})`;
      reject(
        new UserError(
          `port ${port} for ${what} ${why}\nGive another one with ${flag} N, or ${flag} 0 for any that is free`,
        ),
      );
    });
    server.listen(port, '127.0.0.1', () => {
      const address = server.address();
      const free = typeof address === 'object' && address ? address.port : port;
      server.close(() => resolve(free));
    });
  });
}
