import { copyFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { giveRewards, submittedText } from './submission.mjs';

const statuses = statusesOf('/submission/workspace/ops/shop.db');
const released = [1017, 1044, 1090].filter((id) => statuses.get(id) === 'queued').length;
const reported = /\b19469\b/.test(submittedText('/workspace/report.txt'));
console.log(`released: ${released} of 3, sum reported: ${reported}`);
giveRewards({ reward: released === 3 && reported ? 1 : 0 });

/** SQLite wants to write beside what it reads, and nothing may be written there. */
function statusesOf(file) {
  try {
    copyFileSync(file, '/tmp/shop.db');
    const db = new DatabaseSync('/tmp/shop.db', { readOnly: true });
    return new Map(
      db
        .prepare('SELECT id, status FROM orders')
        .all()
        .map((o) => [o.id, o.status]),
    );
  } catch (error) {
    console.log(`the orders cannot be read: ${error.message}`);
    return new Map();
  }
}
