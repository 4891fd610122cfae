/** The most bytes of one line, without its newline: HUD's own limit on a frame, in both directions. */
export const LINE_LIMIT_BYTES = 16 * 1024 * 1024;

export class LineTooLong extends Error {
  override readonly name = 'LineTooLong';
  override readonly message = `a line of more than ${LINE_LIMIT_BYTES} bytes`;
}

/** Cuts a byte stream into lines. Bytes, not text: a character may come in two halves. */
export class LineSplitter {
  private parts: Buffer[] = [];
  private bytes = 0;

  /** @throws LineTooLong once a line is past the limit, whether or not it has ended */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.add(chunk.subarray(start, end));
      const line = this.parts.length === 1 ? chunk.subarray(start, end) : Buffer.concat(this.parts);
      lines.push(line.at(-1) === 13 ? line.subarray(0, -1) : line);
      this.parts = [];
      this.bytes = 0;
      start = end + 1;
    }
    if (start < chunk.length) this.add(chunk.subarray(start));
    return lines;
  }

  private add(part: Buffer): void {
    this.parts.push(part);
    this.bytes += part.length;
    // One byte more: it may be the carriage return before a newline.
    if (this.bytes > LINE_LIMIT_BYTES + 1) throw new LineTooLong();
  }
}
