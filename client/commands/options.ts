import type { Command } from 'commander';

/** One option of a command: what `--help` says of it, and how its text becomes a value. */
interface OptionDefinition {
  /** The value as help writes it, `<n>`; left out, the option is a flag. */
  takes?: string;
  help: string;
  /** Left out, the value is the text. `before` is what the same option gave when it stood there before. */
  parse?: (text: string, before: never) => unknown;
  default?: unknown;
  required?: true;
}

/** The options of a command, by the names that the command has for their values: `baseUrl` is `--base-url`. */
export type OptionTable = Record<string, OptionDefinition>;

type Given<D extends OptionDefinition> = D extends { parse: (...given: never[]) => infer T }
  ? T
  : D extends { takes: string }
    ? string
    : true;

type Always<T extends OptionTable> = {
  [K in keyof T]: T[K] extends { required: true } | { default: unknown } ? K : never;
}[keyof T];

/** What a command is given for its table of options. */
export type OptionValues<T extends OptionTable> = {
  [K in Always<T>]: Given<T[K]>;
} & { [K in Exclude<keyof T, Always<T>>]?: Given<T[K]> };

/** Adds the options of a table to a command. Its action is given their `OptionValues`. */
export function addOptions(command: Command, table: OptionTable): Command {
  for (const [name, { takes, help, parse, default: value, required }] of Object.entries(table)) {
    const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    const option = command
      .createOption(takes === undefined ? flag : `${flag} ${takes}`, help)
      .makeOptionMandatory(required ?? false);
    if (value !== undefined) option.default(value);
    // A parser is given back only what it has returned.
    if (parse) option.argParser(parse as (text: string, before: unknown) => unknown);
    command.addOption(option);
  }
  return command;
}
