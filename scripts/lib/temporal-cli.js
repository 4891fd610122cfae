// Prints where the Temporal command is, and exits with 1 when there is none. With --folder: where set-up is to keep the one that
// it brings; with --version: which release that is. Needs the compiled code in dist/.
const { settingsFrom } = require('../../dist/client/settings');
const cli = require('../../dist/client/stack/temporal-cli');

const settings = settingsFrom(process.env);
const answers = {
  '--folder': () => cli.temporalCliFolder(settings.toolCache),
  '--version': () => cli.temporalCliVersion,
};
try {
  process.stdout.write(
    `${(answers[process.argv[2]] ?? (() => cli.findTemporalCli(settings)))()}\n`,
  );
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
