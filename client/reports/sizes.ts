const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** Writes a size as a person reads it: 1 KB is 2^10 bytes. */
export function sizeWords(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** Writes a time span as a person reads it, in its largest unit. */
export function spanWords(seconds: number): string {
  const spans: [string, number][] = [
    ['d', 86_400],
    ['h', 3600],
    ['min', 60],
  ];
  const found = spans.find(([, length]) => seconds >= length);
  return found ? `${Math.floor(seconds / found[1])} ${found[0]}` : `${Math.floor(seconds)} s`;
}
