/** Keeps what was used last, up to a total size. Values under one key never change, so a stale one cannot be served. */
export class Lru<V> {
  readonly #entries = new Map<string, { value: V; size: number }>();
  readonly #maxSize: number;
  #size = 0;

  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: V, size: number): void {
    if (size > this.#maxSize || this.#entries.has(key)) return;
    this.#entries.set(key, { value, size });
    this.#size += size;
    for (const [oldest, entry] of this.#entries) {
      if (this.#size <= this.#maxSize) return;
      this.#entries.delete(oldest);
      this.#size -= entry.size;
    }
  }
}
