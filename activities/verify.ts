import type { VerifierSpec, VerifyReply } from '../contracts/denv';
import type { VerdictResult } from '../contracts/rollout';
import { PackedTask } from '../contracts/task';
import { DenvError } from '../denv/errors';
import { activity, held } from './support/heartbeat';
import type { Parts } from './support/parts';
import { sendTrees } from './support/trees';

export interface VerifyInput {
  key: string;
  taskRef: string;
  rolloutId: string;
  /** A sandbox is stopped and snapshotted first; a version is judged as it is. */
  target: { sandboxId: string } | { version: string };
  of: VerdictResult['of'];
}

export function verifyActivities({ denv, blobs, documents, owner }: Parts) {
  function verifierOf({ task }: PackedTask): VerifierSpec {
    if (!task.verifier) throw new DenvError('invalid_request', `task ${task.id} has no verifier`);
    const { image, command, collect, timeoutS, env, network } = task.verifier;
    return {
      image,
      command,
      ...(collect ? { collect: collect.map(collectEntry) } : {}),
      ...(timeoutS ? { timeoutS } : {}),
      ...(env ? { env } : {}),
      ...(network ? { network } : {}),
    };
  }

  return {
    /**
     * Has a task's verifier judge a sandbox or a version, and keeps the evidence. Idempotent by `key`: the first recorded
     * verdict of a key wins. A verifier that gives no verdict is a result (`none`), no failure.
     */
    verify: activity(async (input: VerifyInput, signal: AbortSignal): Promise<VerdictResult> => {
      const { key, target } = input;
      const packed = await documents.get(PackedTask, input.taskRef);
      const verifier = verifierOf(packed);
      const labels = { owner, rolloutId: input.rolloutId };
      const reply = await held(denv, null, key, () =>
        sendTrees({ denv, blobs, signal }, packed.verifierFiles, (files) => {
          const request = { verifier: { ...verifier, ...files }, stop: true, labels };
          return 'sandboxId' in target
            ? denv.verify(target.sandboxId, request, { key, signal })
            : denv.verifyVersion(target.version, request, { key, signal });
        }),
      );
      return verdictOf(input, reply, await documents.put(reply.evidence));
    }),
  };
}

function verdictOf(input: VerifyInput, reply: VerifyReply, evidenceRef: string): VerdictResult {
  const { version, rewards, evidence } = reply;
  const counts = reply.verdict !== 'none' && reply.reward !== null;
  return {
    key: input.key,
    of: input.of,
    version,
    verdict: counts ? reply.verdict : 'none',
    reward: counts ? reply.reward : null,
    rewards: counts ? rewards : {},
    evidenceRef,
    summary: summaryOf(reply, evidence).slice(0, 500),
  };
}

function summaryOf({ verdict, reward }: VerifyReply, evidence: VerifyReply['evidence']): string {
  if (verdict === 'refused') {
    return `submission refused: ${evidence.refused?.path ?? '?'}: ${evidence.refused?.why ?? '?'}`;
  }
  if (verdict === 'none' || reward === null) {
    return `no verdict: ${evidence.noVerdict ?? `the verifier ended with ${evidence.exitCode}`}`;
  }
  const missing = evidence.missing.length > 0 ? `, missing ${evidence.missing.join(', ')}` : '';
  return `reward ${reward}, ${evidence.collected.length} files collected${missing}`;
}

const collectEntry = (entry: string | { path: string; exclude?: string[] }) =>
  typeof entry === 'string' ? entry : { path: entry.path, exclude: entry.exclude ?? [] };
