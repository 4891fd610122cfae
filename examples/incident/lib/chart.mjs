import { crc32, deflateSync } from 'node:zlib';

/** A bar chart as a PNG: one bar a value, 0 to 1, green when it is at or above `goal`. */
export function barChart(values, goal, { height = 48, barWidth = 12 } = {}) {
  const width = values.length * barWidth;
  const rows = Array.from({ length: height }, (_, y) => {
    const row = Buffer.alloc(1 + width * 3, 0xff);
    row[0] = 0; // PNG filter: none
    values.forEach((value, n) => {
      if (height - y > value * height) return;
      const colour = value >= goal ? [0x2e, 0x9e, 0x4f] : [0xc8, 0x3c, 0x32];
      for (let x = n * barWidth; x < (n + 1) * barWidth - 2; x += 1) row.set(colour, 1 + x * 3);
    });
    return row;
  });
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8); // 8 bits, RGB
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.concat(rows))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const out = Buffer.alloc(8 + body.length);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), 4 + body.length);
  return out;
}
