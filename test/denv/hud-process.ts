import { type ChildProcess, spawn } from 'node:child_process';
import net from 'node:net';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';

const ROOT = resolve(__dirname, '../..');
export const HUD_PYTHON = resolve(ROOT, '.hud/venv/bin/python');

/** The real `hud` package serving one of the examples' environments, behind a relay that notes which methods come in. */
export class HudProcess {
  /** `host:port` of the relay. */
  address = '';
  readonly methods: string[] = [];
  private child: ChildProcess | null = null;
  private relay: net.Server | null = null;
  private readonly sockets = new Set<net.Socket>();

  async start(env: string): Promise<void> {
    const child = spawn(
      HUD_PYTHON,
      ['-m', 'hud.environment.server', resolve(ROOT, 'examples/hud/envs', env), '--port', '0'],
      {
        env: { ...process.env, HUD_TELEMETRY_ENABLED: 'false' },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    this.child = child;
    const said: string[] = [];
    child.stderr?.on('data', (data: Buffer) => said.push(data.toString()));
    if (!child.stdout) throw new Error('no stdout');
    for await (const line of createInterface({ input: child.stdout })) {
      const port = /^HUD_SERVE_PORT=(\d+)$/.exec(line)?.[1];
      if (port) return this.relayTo(Number(port));
    }
    throw new Error(`the environment ended:\n${said.join('')}`);
  }

  count(method: string): number {
    return this.methods.filter((name) => name === method).length;
  }

  async end(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.relay?.close();
    const { child } = this;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((done) => child.once('exit', done));
    child.kill('SIGTERM');
    await gone;
  }

  private async relayTo(port: number): Promise<void> {
    const relay = net.createServer({ allowHalfOpen: true }, (from) => {
      const to = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      for (const socket of [from, to]) {
        this.sockets.add(socket);
        socket.on('error', () => undefined).on('close', () => this.sockets.delete(socket));
      }
      // A client that died takes the environment's side with it, and the other way round.
      from.on('close', () => to.destroy());
      to.on('close', () => from.destroy());
      let text = '';
      from.on('data', (data: Buffer) => {
        text += data.toString('latin1');
        const lines = text.split('\n');
        text = lines.pop() ?? '';
        for (const line of lines) {
          const method = /"method":\s*"((?:tasks\.\w+|hello|bye|tunnel\.open))"/.exec(line)?.[1];
          if (method) this.methods.push(method);
        }
      });
      from.pipe(to);
      to.pipe(from);
    });
    this.relay = relay;
    await new Promise<void>((done) => relay.listen(0, '127.0.0.1', done));
    const address = relay.address();
    if (address === null || typeof address === 'string') throw new Error('the relay has no port');
    this.address = `127.0.0.1:${address.port}`;
  }
}
