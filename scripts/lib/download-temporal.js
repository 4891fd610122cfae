// Lets the SDK download its own Temporal command into the folder given. It can only do so by starting a server once.
const { TestWorkflowEnvironment } = require('@temporalio/testing');

const executable = { type: 'cached-download', downloadDir: process.argv[2] };
TestWorkflowEnvironment.createLocal({ server: { executable } })
  .then((environment) => environment.teardown())
  .catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
