import type { Socket } from 'node:net';
import { Client, type ClientChannel } from 'ssh2';
import { type CallAnswer, type ControllerCall, ControllerLost } from './controller';
import type { Binding } from './hud-capabilities';
import { cancelledAnswer, type Tool, type Toolset } from './hud-toolset';
import { shellCommand, shellResult, shellTools } from './shell';

const READY_TIMEOUT_MS = 20_000;
/** Of each stream of a command, from its start, as for the shell of a sandbox without a controller. */
const OUTPUT_LIMIT_BYTES = 32 * 1024 * 1024;

/** The shell of a HUD workspace as tools. Each call is a command of its own in the workspace's folder. */
export class SshToolset implements Toolset {
  private opening: Promise<Client> | null = null;

  constructor(
    readonly binding: Binding,
    private readonly tunnel: () => Promise<Socket>,
  ) {}

  list(): Promise<{ tools: Tool[] }> {
    return Promise.resolve({ tools: shellTools });
  }

  async call(call: ControllerCall, name: string): Promise<CallAnswer> {
    const command = shellCommand({ ...call.params, name });
    if ('invalid' in command) {
      return { kind: 'error', error: { code: -32602, message: command.invalid } };
    }
    const channel = await this.exec(command.argv.map(quote).join(' '), call);
    const outcome = runToEnd(channel, call);
    channel.end(command.stdin ?? '');
    call.sent();
    const end = await outcome;
    return 'kind' in end ? end : { kind: 'result', result: shellResult(name, end) };
  }

  close(): void {
    const opening = this.opening;
    this.opening = null;
    void opening?.then(
      (client) => client.end(),
      () => undefined,
    );
  }

  private async exec(command: string, call: ControllerCall): Promise<ClientChannel> {
    const client = await this.client();
    call.sending();
    return new Promise((resolve, reject) => {
      const lost = () => reject(new ControllerLost('the ssh connection ended', true));
      // A channel that was not opened has run nothing.
      const refused = (error: Error) =>
        reject(new ControllerLost(`ssh: ${error.message}`, false, error));
      client.once('close', lost);
      try {
        client.exec(command, (error, channel) => {
          client.off('close', lost);
          if (error) refused(error);
          else resolve(channel);
        });
      } catch (error) {
        refused(error as Error); // ssh2 throws nothing else when it is not connected
      }
    });
  }

  private async client(): Promise<Client> {
    this.opening ??= this.open();
    try {
      return await this.opening;
    } catch (error) {
      this.opening = null;
      const message = error instanceof Error ? error.message : String(error);
      throw new ControllerLost(
        `the shell of capability ${this.binding.name} was not reached: ${message}`,
        false,
        error,
      );
    }
  }

  private async open(): Promise<Client> {
    const { user, client_key: privateKey, host_pubkey: hostKey, shell } = this.binding.params;
    if (typeof privateKey !== 'string' || typeof hostKey !== 'string') {
      throw new Error('it comes without a client key or without the key of its host');
    }
    if (shell === 'cmd' || shell === 'powershell') throw new Error(`no tools for a ${shell} shell`);
    const expected = Buffer.from(hostKey.split(/\s+/)[1] ?? '', 'base64');
    const client = new Client();
    const sock = await this.tunnel();
    await new Promise<void>((resolve, reject) => {
      client.once('ready', resolve).once('error', reject);
      client.once('close', () => reject(new Error('closed before it was ready')));
      client.connect({
        sock,
        username: typeof user === 'string' ? user : 'agent',
        privateKey,
        hostVerifier: (key: Buffer) => key.equals(expected),
        readyTimeout: READY_TIMEOUT_MS,
        keepaliveInterval: 15_000,
      });
    });
    client.on('error', () => undefined);
    client.once('close', () => {
      this.opening = null;
    });
    return client;
  }
}

interface Ended {
  exitCode: number | null;
  stdout: string;
  stderr: string;
  truncated: boolean;
}

/** Past its time, or when the call is cancelled, closing its channel makes the workspace end the command's processes. */
function runToEnd(channel: ClientChannel, call: ControllerCall): Promise<Ended | CallAnswer> {
  const stdout = new Kept();
  const stderr = new Kept();
  return new Promise((resolve, reject) => {
    let exit: { code: number | null } | null = null;
    const finish = (settle: () => void) => {
      clearTimeout(timer);
      call.signal.removeEventListener('abort', cancel);
      settle();
    };
    const abandon = (answer: CallAnswer) =>
      finish(() => {
        channel.signal('KILL');
        channel.close();
        resolve(answer);
      });
    const timer = setTimeout(() => abandon({ kind: 'timed_out' }), call.timeoutS * 1000);
    const cancel = () => abandon(cancelledAnswer);
    channel.on('data', (chunk: Buffer) => stdout.add(chunk));
    channel.stderr.on('data', (chunk: Buffer) => stderr.add(chunk));
    channel.on('exit', (code: number | null) => {
      exit = { code };
    });
    channel.on('close', () =>
      finish(() => {
        if (!exit)
          return reject(new ControllerLost('the command ended without its exit code', true));
        const truncated = stdout.truncated || stderr.truncated;
        resolve({ exitCode: exit.code, stdout: stdout.text(), stderr: stderr.text(), truncated });
      }),
    );
    if (call.signal.aborted) cancel();
    else call.signal.addEventListener('abort', cancel);
  });
}

/** The first bytes of a stream. */
class Kept {
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  truncated = false;

  add(chunk: Buffer): void {
    const room = OUTPUT_LIMIT_BYTES - this.bytes;
    if (chunk.length > room) this.truncated = true;
    if (room <= 0) return;
    const kept = chunk.subarray(0, room);
    this.chunks.push(kept);
    this.bytes += kept.length;
  }

  text(): string {
    return Buffer.concat(this.chunks).toString('utf8');
  }
}

const quote = (argument: string): string => `'${argument.replaceAll("'", `'\\''`)}'`;
