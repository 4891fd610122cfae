import { UserError } from '../errors';
import { ensureDenvKey } from '../../rollouts/home';
import type { Settings } from '../settings';
import { embeddedTrouble } from './embedded';
import { claimPort } from './ports';
import { temporalTrouble } from './probes';
import { findTemporalCli } from './temporal-cli';

export interface StackOptions {
  /** Ports; 0 for any that is free. */
  temporal: number;
  ui: number;
  denv: number;
  /** A port that is taken is replaced by one that is free, instead of refused. */
  orOtherPorts?: boolean;
  /** Folders that images may be taken from, beside `images` in the home and DENV_IMAGE_DIRS. */
  imageDirs?: string[];
}

type Say = (line: string) => void;

/**
 * Decides which Temporal server a stack uses: the one of TEMPORAL_ADDRESS, else one to start.
 * @throws UserError when that one does not answer, or there is no program or port for one to start
 */
export async function planTemporal(settings: Settings, options: StackOptions, say: Say) {
  const address = settings.temporalAddress;
  if (address) {
    const trouble = await temporalTrouble(address, settings.namespace);
    if (trouble === null) return { address, ui: null, start: null };
    throw new UserError(
      `the Temporal server at TEMPORAL_ADDRESS=${address} does not answer: ${trouble}`,
    );
  }
  const cli = findTemporalCli(settings);
  const sayOther = options.orOtherPorts ? say : undefined;
  const server = { what: 'Temporal', flag: '--temporal-port' };
  const port = await claimPort(options.temporal, server, sayOther);
  const page = { what: "Temporal's web page", flag: '--ui-port' };
  const uiPort = await claimPort(options.ui, page, sayOther);
  return {
    address: `127.0.0.1:${port}`,
    ui: `http://127.0.0.1:${uiPort}`,
    start: { cli, port, uiPort },
  };
}

/**
 * Decides which denv server a stack uses: the one of DENV_SERVER, else the embedded one.
 * @throws UserError when the one has no key here, or the other cannot run here
 */
export async function planDenv(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  options: StackOptions,
  say: Say,
) {
  if (settings.denvServer) {
    if (settings.denvApiKey === null) {
      throw new UserError(
        `DENV_SERVER is ${settings.denvServer}, and DENV_API_KEY is not set\nSet it to the key of that server`,
      );
    }
    return {
      address: settings.denvServer,
      apiKey: settings.denvApiKey,
      port: null,
      imageDirs: null,
    };
  }
  const trouble = embeddedTrouble(settings.searchPath);
  if (trouble) throw new UserError(`${trouble.what}\nTo go on, ${trouble.remedy}`);
  const purpose = { what: 'the denv server', flag: '--denv-port' };
  const port = await claimPort(options.denv, purpose, options.orOtherPorts ? say : undefined);
  const apiKey = settings.denvApiKey ?? ensureDenvKey(settings.paths);
  const given = (env['DENV_IMAGE_DIRS'] ?? '').split(':').filter((folder) => folder !== '');
  const imageDirs = [settings.paths.images, ...given, ...(options.imageDirs ?? [])];
  return { address: `http://127.0.0.1:${port}`, apiKey, port, imageDirs };
}
