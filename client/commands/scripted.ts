import type { Command } from 'commander';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';
import { ScriptError } from '../../models/scripted/script';
import type { Context } from '../context';
import { UsageError, UserError } from '../errors';
import { portNumber } from './args';

export function addScripted(program: Command, context: Context): void {
  program
    .command('scripted')
    .description('serve canned model replies over HTTP, for demos and tests')
    .argument('<file>', 'the script')
    .option('--port <n>', '0: any that is free', portNumber, 0)
    .addHelpText(
      'after',
      '\nExample:\n  rollouts scripted replies.yaml --port 8100\n  rollouts run tasks.yaml --model scripted --base-url http://127.0.0.1:8100/v1',
    )
    .action((file: string, options: { port: number }) => scripted(context, file, options));
}

/** Serves until a signal ends it. */
async function scripted(context: Context, file: string, options: { port: number }): Promise<void> {
  const served = await start(file, options.port);
  context.print(`scripted model at ${served.address}/v1; Ctrl-C stops it`);
  const stop = Promise.withResolvers<void>();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop.resolve);
  await stop.promise;
  await served.close();
}

async function start(file: string, port: number): Promise<ScriptedEndpoint> {
  try {
    return await startScripted({ file, port });
  } catch (error) {
    if (Reflect.get(Object(error), 'code') === 'EADDRINUSE') {
      throw new UserError(`port ${port} is taken: give another one with --port, or none`);
    }
    if (error instanceof ScriptError) throw new UsageError(error.message);
    throw error;
  }
}
