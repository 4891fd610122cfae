import { settingsFrom } from '../client/settings';
import { findTemporalCli } from '../client/stack/temporal-cli';
import { startSharedTemporal } from './temporal-server';
import type { SharedTemporal } from './temporal-server';

declare global {
  /** Of a run of tests on real parts; Jest's teardown finds it here. */
  var sharedTemporal: SharedTemporal | undefined;
}

/** Jest calls this once before the tests on real parts. The runner's workers inherit its environment. */
export default async function setUp(): Promise<void> {
  const cli = temporalCli();
  if (cli === null) return;
  globalThis.sharedTemporal = await startSharedTemporal(cli);
  process.env['TEST_TEMPORAL_ADDRESS'] = globalThis.sharedTemporal.address;
}

/** Null when there is none: the test files that need it say so, and the others run. */
function temporalCli(): string | null {
  try {
    return findTemporalCli(settingsFrom(process.env));
  } catch {
    return null;
  }
}
