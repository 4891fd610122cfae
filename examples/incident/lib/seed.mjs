/** The small shop as it is when the incident starts: services, their settings, their logs, their orders. */

export const services = {
  web: { port: 80, upstreamPort: 8081, timeoutMs: 3000 },
  api: { port: 8080, poolSize: 8 },
  cache: { maxEntries: 2000, ttlS: 60 },
  shipper: { intervalS: 30, carrier: 'north' },
};

const clock = (minute, second) =>
  `09:${String(minute).padStart(2, '0')}:${String(second).padStart(2, '0')}`;

export const logs = {
  web: [
    `${clock(1, 12)} info  config reloaded (upstreamPort 8080 -> 8081)`,
    ...Array.from({ length: 40 }, (_, n) =>
      n % 4 === 3
        ? `${clock(2 + Math.floor(n / 8), (n * 7) % 60)} error connect ECONNREFUSED 127.0.0.1:8081`
        : `${clock(2 + Math.floor(n / 8), (n * 7) % 60)} warn  GET /orders/${1000 + n} 502 upstream unavailable`,
    ),
  ],
  api: [
    `${clock(0, 3)} info  listening on 8080`,
    `${clock(1, 40)} info  no request for 30 s`,
    `${clock(6, 40)} info  no request for 330 s`,
  ],
  cache: [
    `${clock(0, 2)} info  2000 entries, ttl 60 s`,
    `${clock(5, 0)} warn  evictions 41/s, hit rate 0.58`,
  ],
  shipper: [
    `${clock(0, 9)} info  picking up paid orders every 30 s`,
    `${clock(2, 39)} error order 1017: label printer answered 503, order left as stuck`,
    `${clock(3, 9)} error order 1044: label printer answered 503, order left as stuck`,
    `${clock(3, 39)} error order 1090: label printer answered 503, order left as stuck`,
    `${clock(4, 9)} info  label printer answers again`,
  ],
};

const stuck = new Set([1017, 1044, 1090]);
const items = ['lamp', 'kettle', 'chair', 'clock', 'rug'];

export const orders = Array.from({ length: 120 }, (_, n) => {
  const id = 1000 + n;
  return {
    id,
    item: items[n % items.length],
    amountCents: 900 + ((n * 7919) % 9000),
    status: stuck.has(id) ? 'stuck' : 'shipped',
  };
});
