import { chown, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ParsedVerifyRequest, VerifyEvidence, VerifyReply } from '../../contracts/denv';
import type { ImageSource } from '../drivers/driver';
import { DenvError } from '../errors';
import { execIdOf } from '../ids';
import type { HeldTree } from './archives';
import { collect, type Collected } from './collect';
import type { ServerContext } from './context';
import type { VersionRow } from './rows';
import { parseImage } from './runtime-spec';
import { afterUndo, digestOf, type OperationContext, RolledBack } from './operations';
import type { TreeSource } from './preparation';
import type { Sandboxes } from './sandboxes';
import { targetOf } from './targets';
import { readVerdict, type Verdict } from './verdict';

const VERIFIER_UID = 2000;
const removal = { recursive: true, force: true, maxRetries: 5, retryDelay: 20 };

interface VerifyWork {
  sandboxId: string | null;
  versionId: string | null;
  stop: boolean;
  verifier: {
    image: string;
    source: ImageSource;
    base: string;
    digest: string;
    reproducible: boolean;
    command: string[];
    collect: { path: string; exclude: string[] }[];
    timeoutS: number;
    env: Record<string, string>;
  };
}

/**
 * Judges what an agent left, as another principal: freeze and snapshot (or take a kept version), copy the declared paths out
 * of the frozen tree, and run the verifier in a container of its own, which sees that copy and the frozen tree read-only. The
 * agent's files are data to it. Redone whole when the server died in the middle.
 */
export class Verify {
  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
  ) {
    context.operations.register('verify', (operation) => this.verify(operation));
  }

  async prepare(
    source: TreeSource,
    request: ParsedVerifyRequest,
    trees: HeldTree[],
  ): Promise<VerifyWork> {
    const judged =
      'sandboxId' in source
        ? this.sandboxes.get(source.sandboxId)
        : this.sandboxes.version(source.versionId);
    const target = targetOf(judged.spec.image);
    if (target !== 'linux') {
      throw new DenvError('capability_missing', `target ${target} has no separate verify`);
    }
    const { verifier } = request;
    const image = parseImage(verifier.image);
    const { driver, archives } = this.context;
    const prepared = await archives.prepare(driver, image, trees);
    return {
      sandboxId: 'sandboxId' in source ? source.sandboxId : null,
      versionId: 'versionId' in source ? source.versionId : null,
      stop: request.stop,
      verifier: {
        image: verifier.image,
        source: image,
        ...prepared,
        command: verifier.command,
        collect: verifier.collect.map((c) =>
          typeof c === 'string' ? { path: c, exclude: [] } : c,
        ),
        timeoutS: verifier.timeoutS,
        env: verifier.env ?? {},
      },
    };
  }

  private async verify(operation: OperationContext): Promise<VerifyReply> {
    const work = operation.request as VerifyWork; // made by prepare
    const folder = join(this.context.settings.dataDir, 'verify', execIdOf(operation.key));
    const containerId = `vf_${execIdOf(operation.key)}`;
    const { driver, log } = this.context;
    const kill = () =>
      void driver.removeContainer(containerId).catch((error: unknown) => {
        log.warn({ err: error, container: containerId }, 'a cancelled verifier was not removed');
      });
    operation.signal.addEventListener('abort', kill);
    try {
      if (operation.resumed) await this.context.driver.removeContainer(containerId);
      const reply = await this.judge(operation, work, folder, containerId);
      const about = this.recordName(work, reply.version);
      operation.atFinish(() =>
        this.context.journal.record(about, 'verified', { key: operation.key, ...reply }),
      );
      return reply;
    } catch (error) {
      throw afterUndo(error);
    } finally {
      operation.signal.removeEventListener('abort', kill);
      // A verdict stands whatever becomes of the folder that it was read from.
      await rm(folder, removal).catch((error: unknown) =>
        this.context.log.warn({ err: error, folder }, "a verifier's folder is left"),
      );
    }
  }

  private async judge(
    operation: OperationContext,
    work: VerifyWork,
    folder: string,
    containerId: string,
  ): Promise<VerifyReply> {
    const clock = stopwatch();
    const version = await this.versionOf(operation.key, work);
    clock.lap('snapshotMs');
    await rm(folder, removal);
    await mkdir(join(folder, 'verdict'), { recursive: true, mode: 0o700 });
    await chown(join(folder, 'verdict'), VERIFIER_UID, VERIFIER_UID);
    const tree = this.treeOf(version);
    const submission = join(folder, 'submission');
    const collected = await collect(tree, submission, work.verifier.collect);
    clock.lap('collectMs');
    const evidence = this.evidenceOf(version, work, collected);
    if (collected.refused) {
      return {
        version: version.id,
        verdict: 'refused',
        reward: 0,
        rewards: {},
        evidence: { ...evidence, timings: clock.laps },
      };
    }
    const run = await this.context.driver.runContainer({
      containerId,
      base: work.verifier.base,
      image: work.verifier.source,
      // A first process is spared the signals that it sends itself: as a shell's child a verifier can crash like any other.
      argv: ['/bin/sh', '-c', '"$@"; exit $?', 'sh', ...work.verifier.command],
      uid: VERIFIER_UID,
      env: work.verifier.env,
      timeoutS: work.verifier.timeoutS,
      caps: this.context.settings.defaultCaps,
      readAll: true,
      mounts: [
        { source: submission, target: '/submission', readOnly: true },
        { source: tree, target: '/env', readOnly: true },
        { source: join(folder, 'verdict'), target: '/verdict', readOnly: false },
      ],
    });
    if (operation.signal.aborted) {
      throw new RolledBack(new DenvError('sandbox_gone', 'deleted while it was verified'));
    }
    clock.lap('containerMs');
    const verdict: Verdict = run.timedOut
      ? { none: `the verifier did not end within ${work.verifier.timeoutS} s` }
      : await readVerdict(join(folder, 'verdict'));
    const found = 'reward' in verdict;
    return {
      version: version.id,
      verdict: found ? 'reward' : 'none',
      reward: found ? verdict.reward : null,
      rewards: found ? verdict.rewards : {},
      evidence: {
        ...evidence,
        exitCode: run.exitCode,
        timedOut: run.timedOut,
        noVerdict: found ? null : verdict.none,
        outputTail: run.outputTail,
        timings: { ...clock.laps, startMs: run.startMs, runMs: run.runMs },
      },
    };
  }

  private async versionOf(key: string, work: VerifyWork): Promise<VersionRow> {
    if (work.versionId !== null) return this.sandboxes.version(work.versionId);
    const row = this.sandboxes.get(work.sandboxId ?? '');
    return this.sandboxes.takeVersion(row, key, { stop: work.stop });
  }

  private treeOf(version: VersionRow): string {
    const { driver } = this.context;
    return version.base === null ? driver.versionPath(version.id) : driver.basePath(version.base);
  }

  private evidenceOf(version: VersionRow, work: VerifyWork, collected: Collected): VerifyEvidence {
    const { verifier } = work;
    return {
      principal: 'verifier',
      uid: VERIFIER_UID,
      egress: 'deny',
      version: version.id,
      reproducible: version.spec.reproducible && verifier.reproducible,
      image: { name: verifier.image, digest: verifier.digest },
      verifierDigest: digestOf([verifier.digest, verifier.command, verifier.collect, verifier.env]),
      collected: collected.files,
      missing: collected.missing,
      refused: collected.refused,
      exitCode: null,
      timedOut: false,
      noVerdict: null,
      outputTail: '',
      timings: {},
    };
  }

  /** A verdict belongs to the record of the sandbox it is about; an image's start version has none but its own. */
  private recordName(work: VerifyWork, versionId: string): string {
    return work.sandboxId ?? this.sandboxes.version(versionId).sandbox ?? versionId;
  }
}

function stopwatch(): { laps: Record<string, number>; lap(name: string): void } {
  const laps: Record<string, number> = {};
  let last = performance.now();
  return {
    laps,
    lap(name) {
      const now = performance.now();
      laps[name] = Math.round((now - last) * 10) / 10;
      last = now;
    },
  };
}
