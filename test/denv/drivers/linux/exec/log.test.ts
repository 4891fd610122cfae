import { decodeLog } from '../../../../../denv/drivers/linux/exec/log';

const line = (stream: string, end: string, content: string | Buffer) =>
  Buffer.concat([
    Buffer.from(`2026-11-29T18:00:00.000000001+00:00 ${stream} ${end} `),
    Buffer.from(content),
    Buffer.from('\n'),
  ]);

describe('decodeLog', () => {
  it('gives back bytes as they were, with their newlines only where they were', () => {
    const binary = Buffer.from([0, 255, 13, 32, 128]);
    const log = Buffer.concat([
      line('stdout', 'F', 'one'),
      line('stderr', 'P', 'part'),
      line('stdout', 'P', binary),
      line('stdout', 'F', ''),
    ]);

    expect(decodeLog(log)).toEqual({
      used: log.length,
      pieces: [
        { stream: 'stdout', data: Buffer.from('one\n') },
        { stream: 'stderr', data: Buffer.from('part') },
        { stream: 'stdout', data: binary },
        { stream: 'stdout', data: Buffer.from('\n') },
      ],
    });
  });

  it('leaves a line that is not whole yet for the next time', () => {
    const whole = line('stdout', 'F', 'one');

    const log = Buffer.concat([whole, line('stdout', 'F', 'two').subarray(0, -1)]);

    expect(decodeLog(log)).toMatchObject({ used: whole.length, pieces: [{ stream: 'stdout' }] });
    expect(decodeLog(Buffer.alloc(0))).toEqual({ used: 0, pieces: [] });
  });
});
