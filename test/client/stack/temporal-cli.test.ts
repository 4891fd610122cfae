import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { settingsFrom } from '../../../client/settings';
import {
  findTemporalCli,
  temporalCliFolder,
  temporalCliVersion,
} from '../../../client/stack/temporal-cli';

describe('findTemporalCli', () => {
  let home: string;

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'temporal-cli-'));
  });

  afterEach(() => rmSync(home, { recursive: true, force: true }));

  const brought = () => join(temporalCliFolder(join(home, '.cache/denv-rollouts')), 'temporal');
  const find = (env: NodeJS.ProcessEnv = {}) =>
    findTemporalCli(settingsFrom({ HOME: home, PATH: join(home, 'bin'), ...env }));

  it('takes the one that TEMPORAL_CLI names before any other', () => {
    program(join(home, 'bin/temporal'));
    program(join(home, 'mine'));

    expect(find({ TEMPORAL_CLI: join(home, 'mine') })).toBe(join(home, 'mine'));
  });

  it('takes the one on PATH before the one that set-up brought', () => {
    program(join(home, 'bin/temporal'));
    program(brought());

    expect(find()).toBe(join(home, 'bin/temporal'));
  });

  it('finds what set-up brought with nothing on PATH', () => {
    program(brought());

    expect(find()).toBe(brought());
  });

  it('passes over what another release of set-up has left, and files that cannot be run', () => {
    program(join(home, '.cache/denv-rollouts/temporal-v0.0.1/temporal'));
    program(join(home, 'bin/temporal'), 0o644);

    expect(() => find()).toThrow(
      `there is no \`temporal\` command on PATH or in ${dirname(brought())}\nBring it with: npm run setup`,
    );
  });

  it('says which variable names a command that is not there', () => {
    expect(() => find({ TEMPORAL_CLI: '/nowhere/temporal' })).toThrow(
      'TEMPORAL_CLI names /nowhere/temporal, which is no program that can be run',
    );
  });

  it('keeps each release in a folder of its own', () => {
    expect(temporalCliFolder('/c')).toBe(`/c/temporal-${temporalCliVersion}`);
  });
});

function program(file: string, mode = 0o755): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, '#!/bin/sh\n');
  chmodSync(file, mode);
}
