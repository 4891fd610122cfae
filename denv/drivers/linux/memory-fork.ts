import { findProgram, run } from '../host/processes';

const neededMajor = 4;

/**
 * Why a fork here does not take the memory of processes along. It could with CRIU, from version 4 on and where `criu check`
 * agrees; but nothing in this driver dumps and restores a sandbox, so it is claimed on no host.
 */
export async function whyNoMemoryFork(criu = findProgram('criu')): Promise<string> {
  return `memory fork: not claimed, ${await reasonOf(criu)}`;
}

async function reasonOf(criu: string | null): Promise<string> {
  if (criu === null) return `there is no CRIU on PATH (${neededMajor} or newer is needed)`;
  try {
    const version =
      /\d+(\.\d+)*/.exec(await run(criu, ['--version']))?.[0] ?? 'of no known version';
    if (!(Number.parseInt(version, 10) >= neededMajor)) {
      return `CRIU ${version} is too old (${neededMajor} or newer is needed)`;
    }
    await run(criu, ['check']);
    return `CRIU ${version} says that it works here, but no sandbox is dumped and restored by it`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
