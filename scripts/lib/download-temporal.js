// Lets the SDK download its own Temporal command: folder, release. It can only do so by starting a server once.
const { TestWorkflowEnvironment } = require('@temporalio/testing');

const [downloadDir, version] = process.argv.slice(2);
TestWorkflowEnvironment.createLocal({
  server: { executable: { type: 'cached-download', downloadDir, version } },
})
  .then((environment) => environment.teardown())
  .catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
