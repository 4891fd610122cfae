import type { Socket } from 'node:net';
import { Client, type ClientChannel } from 'ssh2';
import { DenvError } from '../../errors';
import {
  type CallAnswer,
  cancelledAnswer,
  type ControllerCall,
  ControllerLost,
} from '../controller';
import type { Binding, Tool, Toolset } from './capabilities';
import { shellCommand, shellResult, shellTools } from '../shell';

const READY_TIMEOUT_MS = 20_000;
/** Kept of each stream of a command, from its start, as for the shell of a sandbox without a controller. */
const OUTPUT_LIMIT_BYTES = 32 * 1024 * 1024;

interface Shell {
  client: Client;
  stream: Socket;
}

/** The shell of a HUD workspace as tools. Each call is a command of its own in the workspace's folder. */
export class SshToolset implements Toolset {
  private opening: Promise<Shell> | null = null;

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
    const client = await this.connected();
    if (call.signal.aborted) return cancelledAnswer;
    call.sending();
    const line = command.argv.map(quote).join(' ');
    const end = await run(client, { line, stdin: command.stdin ?? '' }, call);
    return 'kind' in end ? end : { kind: 'result', result: shellResult(name, end) };
  }

  close(): void {
    const opening = this.opening;
    this.opening = null;
    void opening?.then(
      ({ client }) => client.end(),
      () => undefined,
    );
  }

  /** @throws ControllerLost, with nothing sent; DenvError capability_missing */
  private async connected(): Promise<Client> {
    try {
      const open = this.opening && (await this.opening);
      if (open?.stream.writable) return open.client;
      this.opening = this.open();
      return (await this.opening).client;
    } catch (error) {
      this.opening = null;
      if (error instanceof DenvError) throw error;
      const message = error instanceof Error ? error.message : String(error);
      throw new ControllerLost(
        `the shell of capability ${this.binding.name} was not reached: ${message}`,
        false,
        error,
      );
    }
  }

  private missing(what: string): DenvError {
    return new DenvError(
      'capability_missing',
      `capability ${this.binding.name}: ${what} is not supported`,
    );
  }

  private async open(): Promise<Shell> {
    const { user, client_key: privateKey, host_pubkey: hostKey, shell } = this.binding.params;
    if (typeof privateKey !== 'string' || typeof hostKey !== 'string') {
      throw this.missing('a shell without a client key, or without the key of its host,');
    }
    if (shell === 'cmd' || shell === 'powershell') throw this.missing(`a shell that is ${shell}`);
    const expected = Buffer.from(hostKey.split(/\s+/)[1] ?? '', 'base64');
    const client = new Client();
    const stream = await this.tunnel();
    await new Promise<void>((resolve, reject) => {
      client.once('ready', resolve).on('error', reject);
      client.once('close', () => reject(new Error('closed before it was ready')));
      client.connect({
        sock: stream,
        username: typeof user === 'string' ? user : 'agent',
        privateKey,
        hostVerifier: (key: Buffer) => key.equals(expected),
        readyTimeout: READY_TIMEOUT_MS,
        keepaliveInterval: 15_000,
      });
    });
    return { client, stream };
  }
}

interface Ended {
  exitCode: number | null;
  stdout: string;
  stderr: string;
  truncated: boolean;
}

/**
 * One command to its end. Past its time, or when the call is cancelled, its channel is closed, and the workspace ends its
 * processes.
 * @throws ControllerLost
 */
function run(
  client: Client,
  command: { line: string; stdin: string },
  call: ControllerCall,
): Promise<Ended | CallAnswer> {
  return new Promise((resolve, reject) => {
    let channel: ClientChannel | null = null;
    let over = false;
    const finish = (settle: () => void) => {
      over = true;
      clearTimeout(timer);
      call.signal.removeEventListener('abort', cancel);
      client.off('close', gone);
      settle();
    };
    const abandon = (answer: CallAnswer) =>
      finish(() => {
        channel?.signal('KILL');
        channel?.close();
        resolve(answer);
      });
    const lose = (message: string, sent: boolean) =>
      finish(() => reject(new ControllerLost(message, sent)));
    const timer = setTimeout(() => abandon({ kind: 'timed_out' }), call.timeoutS * 1000);
    const cancel = () => abandon(cancelledAnswer);
    const gone = () => lose('the ssh connection ended', true);
    call.signal.addEventListener('abort', cancel);
    client.once('close', gone);
    try {
      client.exec(command.line, (error, opened) => {
        // A channel that was not opened has run nothing.
        if (error) return lose(`ssh: ${error.message}`, false);
        if (over) return opened.close();
        channel = opened;
        call.sent();
        // At once: all of a quick command may come in one packet, its exit code too.
        follow(opened, (end) =>
          end ? finish(() => resolve(end)) : lose('the command ended without its exit code', true),
        );
        opened.end(command.stdin);
      });
    } catch (error) {
      lose(`ssh: ${(error as Error).message}`, false); // ssh2 throws nothing else when not connected
    }
  });
}

/** Tells the end of a command, or null when its channel closed without one. */
function follow(channel: ClientChannel, tell: (end: Ended | null) => void): void {
  const stdout = new Kept();
  const stderr = new Kept();
  let exit: { code: number | null } | null = null;
  channel.on('data', (chunk: Buffer) => stdout.add(chunk));
  channel.stderr.on('data', (chunk: Buffer) => stderr.add(chunk));
  channel.on('exit', (code: number | null) => {
    exit = { code };
  });
  channel.on('close', () => {
    if (!exit) return tell(null);
    const truncated = stdout.truncated || stderr.truncated;
    tell({ exitCode: exit.code, stdout: stdout.text(), stderr: stderr.text(), truncated });
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
