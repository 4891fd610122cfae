// Runs jest and writes its report, as in: run-jest.js REPORT [jest's arguments]. A run whose tests are over but that does not end,
// since a test file left something open, is ended after a while and has failed.
const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');

const graceMs = Number(process.env.TEST_GRACE_S ?? 30) * 1000;
const [report, ...args] = process.argv.slice(2);
const jest = spawn(
  process.execPath,
  [require.resolve('jest/bin/jest'), ...args, '--json', `--outputFile=${report}`],
  { stdio: ['ignore', 'inherit', 'inherit'] },
);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => jest.kill(signal));

let overSince = null;
const watch = setInterval(() => {
  // Jest writes the report once all tests are over.
  if (!existsSync(report)) return;
  overSince ??= Date.now();
  if (Date.now() - overSince < graceMs) return;
  process.stdout.write(
    `test: the tests are over, but the run has not ended for ${graceMs / 1000} s: a test file left something open\n`,
  );
  jest.kill('SIGKILL');
  clearInterval(watch);
}, 500);

jest.on('exit', (code) => {
  clearInterval(watch);
  process.exitCode = code ?? 1;
});
