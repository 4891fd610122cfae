import type { Command } from 'commander';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';
import { ScriptError } from '../../models/scripted/script';
import type { Context } from '../context';
import { UsageError, UserError } from '../errors';
import { portNumber } from './args';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  port: {
    takes: '<n>',
    help: 'port to listen on; 0 takes any that is free',
    parse: portNumber,
    default: 0,
  },
} satisfies OptionTable;

type ScriptedOptions = OptionValues<typeof options>;

export function addScripted(program: Command, context: Context): void {
  const command = program
    .command('scripted')
    .description('serve canned model replies over HTTP, for demos and tests')
    .argument('<file>', 'the script: a YAML file of replies');
  addOptions(command, options)
    .addHelpText(
      'after',
      '\nExample:\n  rollouts scripted replies.yaml --port 8100\n  rollouts run tasks.yaml --model scripted --base-url http://127.0.0.1:8100/v1',
    )
    .action((file: string, given: ScriptedOptions) => scripted(context, file, given));
}

/** Serves until a signal ends it. */
async function scripted(context: Context, file: string, { port }: ScriptedOptions): Promise<void> {
  const served = await start(file, port);
  context.print(`the scripted model answers at ${served.address}/v1; Ctrl-C stops it`);
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
      throw new UserError(
        `port ${port} is taken by another program\nGive another one with --port N, or leave --port out for any that is free`,
      );
    }
    if (error instanceof ScriptError) throw new UsageError(error.message);
    throw error;
  }
}
