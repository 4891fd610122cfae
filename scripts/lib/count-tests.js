// Several jest reports as one line. A test file that could not be run counts as one failure, and so does a run that failed without
// saying why.
const { existsSync, readFileSync } = require('node:fs');

const [status, ...reports] = process.argv.slice(2);
const files = reports.flatMap(readReport);
const sum = (field) => files.reduce((total, file) => total + file[field], 0);
const failed = sum('failed');
if (sum('pending') > 0) process.stdout.write(`${sum('pending')} skipped\n`);
process.stdout.write(
  `${sum('passed')} passed, ${status !== '0' && failed === 0 ? 1 : failed} failed\n`,
);

function readReport(report) {
  if (!existsSync(report)) return [];
  return JSON.parse(readFileSync(report, 'utf8')).testResults.map((file) => {
    const count = (...statuses) =>
      file.assertionResults.filter((result) => statuses.includes(result.status)).length;
    const failedTests = count('failed');
    return {
      passed: count('passed'),
      failed: failedTests === 0 && file.status === 'failed' ? 1 : failedTests,
      pending: count('pending', 'todo', 'skipped', 'disabled'),
    };
  });
}
