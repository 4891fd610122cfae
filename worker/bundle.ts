import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DefaultLogger, bundleWorkflowCode } from '@temporalio/worker';

/** Writes the workflows' bundle beside the compiled code, so that a worker starts without making one. Run by scripts/build. */
async function writeBundle(): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: require.resolve('../workflows'),
    logger: new DefaultLogger('ERROR'),
  });
  writeFileSync(join(__dirname, '..', 'workflow-bundle.js'), code);
}

writeBundle().catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  process.exitCode = 1;
});
