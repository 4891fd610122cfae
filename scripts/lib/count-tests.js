// Several jest reports as one line: of a file that ran again the later one counts. A test file that could not be run counts as
// one failure, and so does a run that failed without saying why. With `--failed REPORT` the files of it that failed, a line each.
const { existsSync, readFileSync } = require('node:fs');

const [first, ...rest] = process.argv.slice(2);
if (first === '--failed') listFailed(rest[0]);
else printCounts(first, rest);

function printCounts(status, reports) {
  const files = new Map();
  for (const report of reports) for (const file of filesOf(report)) files.set(file.name, file);
  const sum = (field) => [...files.values()].reduce((total, file) => total + file[field], 0);
  const failed = sum('failed');
  if (sum('pending') > 0) process.stdout.write(`${sum('pending')} skipped\n`);
  const counted = status !== '0' && failed === 0 ? 1 : failed;
  process.stdout.write(`${sum('passed')} passed, ${counted} failed\n`);
}

function listFailed(report) {
  for (const { name, failed } of filesOf(report)) if (failed > 0) process.stdout.write(`${name}\n`);
}

function filesOf(report) {
  if (!existsSync(report)) return [];
  return JSON.parse(readFileSync(report, 'utf8')).testResults.map((file) => {
    const count = (...statuses) =>
      file.assertionResults.filter(({ status }) => statuses.includes(status)).length;
    const failed = count('failed');
    return {
      name: file.name,
      passed: count('passed'),
      failed: failed === 0 && file.status === 'failed' ? 1 : failed,
      pending: count('pending', 'todo', 'skipped', 'disabled'),
    };
  });
}
