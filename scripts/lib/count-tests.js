// The sum of several jest reports as one line. A test file that could not be run counts as one failure, and so does a run
// that failed without saying why.
const { readFileSync } = require('node:fs');

const [status, ...files] = process.argv.slice(2);
const reports = files.map((file) => JSON.parse(readFileSync(file, 'utf8')));
const sum = (field) => reports.reduce((total, report) => total + report[field], 0);
const passed = sum('numPassedTests');
const failed = sum('numFailedTests') + sum('numRuntimeErrorTestSuites');
const pending = sum('numPendingTests') + sum('numTodoTests');
if (pending > 0) process.stdout.write(`${pending} skipped\n`);
process.stdout.write(`${passed} passed, ${status !== '0' && failed === 0 ? 1 : failed} failed\n`);
