import { LINE_LIMIT_BYTES, LineSplitter } from '../../../denv/controllers/lines';

describe('LineSplitter', () => {
  const split = (...chunks: (string | Buffer)[]) => {
    const splitter = new LineSplitter();
    return chunks.map((chunk) => splitter.push(Buffer.from(chunk)).map((line) => line.toString()));
  };

  it('finds lines wherever the chunks were cut', () => {
    expect(split('a', 'b\nc\r\n\n', 'd')).toEqual([[], ['ab', 'c', ''], []]);
  });

  it('keeps a character whole that comes in two halves', () => {
    const bytes = Buffer.from('é😀\n');

    expect(split(...[...bytes].map((byte) => Buffer.from([byte]))).flat()).toEqual(['é😀']);
  });

  it('takes a line at the limit and none past it, ended or not', () => {
    const most = Buffer.alloc(LINE_LIMIT_BYTES, 'x');
    const splitter = new LineSplitter();

    expect(splitter.push(most)).toEqual([]);
    expect(splitter.push(Buffer.from('\n'))[0]).toHaveLength(LINE_LIMIT_BYTES);
    splitter.push(most);
    expect(() => splitter.push(Buffer.from('xx'))).toThrow('a line of more than 16777216 bytes');
  });
});
