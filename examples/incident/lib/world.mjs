import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { logs, orders, services } from './seed.mjs';

/**
 * The state of the shop, all of it in files, so that it forks with the file system:
 *   ops/config/<service>.json  as written      ops/state.json   as running
 *   ops/logs/<service>.log                     ops/shop.db      orders, in SQLite
 *   ops/effects.log            one line for each call that changes something
 */
export function openWorld(root) {
  const home = join(root, 'ops');
  if (!existsSync(home)) seed(home);
  return {
    root,
    services: Object.keys(services),
    config: (service) => readJson(join(home, 'config', `${service}.json`)),
    setConfig: (service, config) => writeJson(join(home, 'config', `${service}.json`), config),
    running: () => readJson(join(home, 'state.json')),
    setRunning: (state) => writeJson(join(home, 'state.json'), state),
    log: (service) => readFileSync(join(home, 'logs', `${service}.log`), 'utf8'),
    addLog: (service, line) => appendFileSync(join(home, 'logs', `${service}.log`), `${line}\n`),
    /** One line before each change: what is counted is what was begun. */
    addEffect: (tool, requestId) =>
      appendFileSync(join(home, 'effects.log'), `${JSON.stringify({ tool, requestId })}\n`),
    query: (sql) => withDatabase(home, { readOnly: true }, (db) => db.prepare(sql).all()),
    run: (sql, ...values) => withDatabase(home, {}, (db) => db.prepare(sql).run(...values)),
    report: (text) => writeFileSync(join(root, 'report.txt'), text),
  };
}

/** Made beside its place and moved there whole: a controller killed half way leaves no half world. */
function seed(home) {
  const draft = `${home}.draft`;
  rmSync(draft, { recursive: true, force: true });
  for (const dir of ['config', 'logs']) mkdirSync(join(draft, dir), { recursive: true });
  for (const [service, config] of Object.entries(services)) {
    writeJson(join(draft, 'config', `${service}.json`), config);
    writeFileSync(join(draft, 'logs', `${service}.log`), `${logs[service].join('\n')}\n`);
  }
  writeJson(join(draft, 'state.json'), { running: services, restarts: {} });
  writeFileSync(join(draft, 'effects.log'), '');
  withDatabase(draft, {}, (db) => {
    db.exec(
      'CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, amountCents INTEGER, status TEXT)',
    );
    const insert = db.prepare('INSERT INTO orders VALUES (?, ?, ?, ?)');
    db.exec('BEGIN');
    for (const order of orders) insert.run(order.id, order.item, order.amountCents, order.status);
    db.exec('COMMIT');
  });
  renameSync(draft, home);
}

function withDatabase(home, options, use) {
  const db = new DatabaseSync(join(home, 'shop.db'), options);
  try {
    return use(db);
  } finally {
    db.close();
  }
}

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));

function writeJson(file, value) {
  writeFileSync(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`);
  renameSync(`${file}.new`, file);
}

/** How each service does with the settings that it runs with. */
export function health(running) {
  const { web, api, cache } = running;
  return {
    web: web.upstreamPort === api.port ? 'up' : 'failing',
    api: 'up',
    cache: cacheFigures(cache).hitRate >= 0.8 ? 'up' : 'degraded',
    shipper: 'up',
  };
}

export function cacheFigures({ maxEntries, ttlS }) {
  const hitRate = (maxEntries / (maxEntries + 1000)) * (ttlS / (ttlS + 9));
  return { hitRate: Math.round(hitRate * 1000) / 1000, memoryMb: Math.ceil(maxEntries / 250) };
}
