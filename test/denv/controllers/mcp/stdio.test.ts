import type { ControllerCall } from '../../../../denv/controllers/controller';
import { LINE_LIMIT_BYTES } from '../../../../denv/controllers/lines';
import { resumeMcpStdio } from '../../../../denv/controllers/mcp/stdio';
import type { ExecHandle } from '../../../../denv/drivers/driver';

/** A controller's process: what it is written, and a way to let it write. */
class Process {
  readonly written: string[] = [];
  followers = 0;
  say: (stdout: Buffer | string) => void = () => undefined;

  readonly handle = {
    write: async (data: Buffer) => void this.written.push(data.toString()),
    follow: (_offset: number, onData: (stdout: Buffer, nextOffset: number) => void) => {
      this.followers += 1;
      this.say = (stdout) => onData(Buffer.from(stdout), 0);
      return () => (this.followers -= 1);
    },
  } as unknown as ExecHandle; // the rest is not asked for
}

const call = (callId: string): ControllerCall => ({
  callId,
  method: 'tools/call',
  params: {},
  timeoutS: 60,
  resetTimeoutOnProgress: false,
  signal: new AbortController().signal,
  sending: () => undefined,
  sent: () => undefined,
});

describe('MCP over stdio', () => {
  it('finds messages wherever the output was cut, and passes over chatter', async () => {
    const process = new Process();
    const connection = resumeMcpStdio(process.handle, '2025-06-18');

    const answer = connection.call(call('a'));
    for (const part of ['starting…\n{"jsonrpc":"2.0","id":', '"a","result":{"ok":', 'true}}\r\n']) {
      process.say(part);
    }

    expect(await answer).toEqual({ kind: 'result', result: { ok: true } });
    expect(process.written.map((line) => JSON.parse(line).id)).toEqual(['a']);
  });

  it('fails the controller that writes a line past the limit, and keeps no more of it', async () => {
    const process = new Process();
    const connection = resumeMcpStdio(process.handle, '2025-06-18');
    const failure = {
      code: 'controller_failed',
      message: 'the controller wrote a line of more than 16777216 bytes to its stdout',
    };

    const out = connection.call(call('a'));
    process.say(Buffer.alloc(LINE_LIMIT_BYTES + 1, 'x'));
    expect(process.followers).toBe(1);
    process.say('xx');

    await expect(out).rejects.toMatchObject(failure);
    expect(process.followers).toBe(0);
    process.say('{"jsonrpc":"2.0","id":"b","result":{}}\n');
    await expect(connection.call(call('b'))).rejects.toMatchObject(failure);
    await expect(connection.awaitAnswer?.(call('b'))).rejects.toMatchObject(failure);
    expect(process.written).toHaveLength(1);
  });
});
