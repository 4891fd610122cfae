import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { BatchReport } from '../../../contracts/batch';
import { lastLine, start } from '../../e2e/person';
import { settled, until } from '../../e2e/until';
import { useCrashStack } from '../../e2e/use-crash-stack';

const stack = useCrashStack();
const Report = z.object({
  regradeId: z.string().nullable(),
  judged: z.number(),
  missing: z.number(),
  turned: z.number(),
  same: z.number(),
  rollouts: z.array(
    z.object({
      rolloutId: z.string(),
      before: z.number().nullable(),
      reward: z.number().nullable(),
      turned: z.boolean(),
      version: z.string().nullable(),
      why: z.string().nullable(),
    }),
  ),
});

/** What each agent leaves as its answer, by task; the true one is 42. */
const answers = { right: '42', wrong: '41', also: '42', near: '4 2' };
const idOf = (batch: string, task: string): string => `rollout/${batch}/${task}/0`;

/** Content with any answer at all. */
const tooKind = '[ -s /submission/workspace/answer.txt ] && r=1 || r=0';
const crashes = 'kill -SEGV $$';
const exact = '[ "$(cat /submission/workspace/answer.txt)" = 42 ] && r=1 || r=0';
const gated = `until [ -e /verdict/go ]; do sleep 0.05; done; ${exact}`;

function verifierOf(script: string) {
  return {
    image: 'host',
    files: [{ from: './verify.sh', to: '/verify/verify.sh' }],
    command: ['sh', '/verify/verify.sh'],
    collect: ['/workspace/answer.txt'],
    timeoutS: 60,
    env: { SAYS: script },
  };
}

/** A folder with the script of a verifier and, in a file of its own, the verifier. */
function writeVerifier(name: string, script: string): string {
  const folder = join(stack.home, 'verifiers', name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, 'verify.sh'),
    `${script}\necho "{\\"reward\\": $r}" > /verdict/reward.json\n`,
  );
  const file = join(folder, 'verifier.json');
  writeFileSync(file, JSON.stringify(verifierOf(script)));
  return file;
}

/** Runs a batch of all answers with a verifier, by the oracle. */
async function runBatch(batch: string, script: string): Promise<BatchReport> {
  const file = join(writeVerifier(`of-${batch}`, script), '..', 'taskset.json');
  const tasks = Object.entries(answers).map(([id, answer]) => ({
    id,
    prompt: 'What is it?',
    environment: { image: 'host' },
    solution: [['sh', '-c', `echo '${answer}' > /workspace/answer.txt`]],
    verifier: verifierOf(script),
  }));
  writeFileSync(file, JSON.stringify({ name: 'answers', tasks }));
  const ran = await stack.command('run', file, '--agent', 'oracle', '--batch', batch, '--json');
  return BatchReport.parse(JSON.parse(lastLine(ran.stdout)));
}

async function regrade(...args: string[]) {
  const { code, stdout, stderr } = await stack.command('regrade', ...args, '--json');
  if (stdout === '') throw new Error(`regrade exited ${code}: ${stderr}`);
  return { code, report: Report.parse(JSON.parse(lastLine(stdout))) };
}

const rewardsOf = (report: BatchReport) =>
  report.rollouts.map(({ task, reward }) => [task, reward]);

/** How often the denv server has judged a rollout's final snapshot under keys of a regrade. */
async function judgements(rolloutId: string, regradeId: string): Promise<string[]> {
  const result = (await stack.rollouts.ledger.rollout(rolloutId))?.result;
  const { entries } = await stack.record(result?.sandboxId ?? '');
  return entries.flatMap(({ event, data }) => {
    const key: unknown = data['key'];
    return event === 'verified' && typeof key === 'string' && key.startsWith(regradeId)
      ? [key]
      : [];
  });
}

describe('verdicts again', () => {
  it('a fixed verifier turns exactly the wrong verdicts; no agent runs, no model is asked', async () => {
    const before = await runBatch('kind', tooKind);
    expect(rewardsOf(before)).toEqual([
      ['right', 1],
      ['wrong', 1],
      ['also', 1],
      ['near', 1],
    ]);
    const results = await stack.rollouts.ledger.results(before.rollouts.map((r) => r.rolloutId));
    const fixed = writeVerifier('exact', exact);

    const dry = await regrade('kind', '--verifier', fixed, '--dry-run');
    const { code, report } = await regrade('kind', '--verifier', fixed, '--diff');

    expect(dry).toMatchObject({ code: 0, report: { regradeId: null, judged: 0 } });
    expect(code).toBe(0);
    expect(report).toMatchObject({ regradeId: 'regrade/kind/1', judged: 4, turned: 2, same: 2 });
    expect(report.rollouts.map((r) => [r.rolloutId, r.before, r.reward])).toEqual([
      [idOf('kind', 'wrong'), 1, 0],
      [idOf('kind', 'near'), 1, 0],
    ]);
    for (const { rolloutId } of before.rollouts) {
      expect(await judgements(rolloutId, 'regrade/kind/1')).toHaveLength(1);
    }
    // Nothing of what was recorded has changed, nothing was made anew and nobody was asked.
    expect(await stack.rollouts.ledger.results(results.map((r) => r.rolloutId))).toEqual(results);
    expect(results.map(({ modelCalls }) => modelCalls)).toEqual([0, 0, 0, 0]);
    expect(await stack.rollouts.blobs.list('replies/')).toEqual([]);
    expect((await stack.rollouts.denv.listSandboxes()).sandboxes).toEqual([]);
  });

  it('everybody sees the verdict that counts now, with the first one beside it', async () => {
    const watched = await stack.command('watch', 'kind', '--json');
    const listed = await stack.command('list', '--batch', 'kind', '--json');
    const table = (await stack.command('list', '--batch', 'kind')).stdout;
    const shown = await stack.command('show', idOf('kind', 'wrong'));

    const report = BatchReport.parse(JSON.parse(lastLine(watched.stdout)));
    expect(report).toMatchObject({ scored: 4, meanReward: 0.5 });
    const regraded = { regradeId: 'regrade/kind/1', first: 1 };
    expect(report.rollouts[1]).toMatchObject({ task: 'wrong', reward: 0, regraded });
    expect(JSON.parse(listed.stdout)[1]).toMatchObject({ reward: 0, regraded });
    expect(table).toMatch(/kind\/wrong\/0 +scored +0 \(first 1\)/);
    expect(shown.stdout).toMatch(/now +reward 0, by regrade\/kind\/1/);
    expect(shown.stdout).toMatch(/regrade\/kind\/1 of ver_\w+, .*: reward 0 \(current\)/);
  });

  it('without another verifier the tasks’ own judges again, and the newest verdict counts', async () => {
    const { code, report } = await regrade(idOf('kind', 'wrong'));

    expect(code).toBe(0);
    expect(report).toMatchObject({ regradeId: 'regrade/kind/2', judged: 1, turned: 1 });
    expect(report.rollouts[0]).toMatchObject({ before: 0, reward: 1 });
    const given = await stack.rollouts.ledger.regrades({ rolloutId: idOf('kind', 'wrong') });
    expect(given.map(({ regradeId, reward, current }) => [regradeId, reward, current])).toEqual([
      ['regrade/kind/1', 0, false],
      ['regrade/kind/2', 1, true],
    ]);
    expect(given[0]?.verifierDigest).not.toBe(given[1]?.verifierDigest);
  });

  it('judges only the unscored: those whose verifier crashed', async () => {
    const before = await runBatch('crashed', crashes);
    expect(before).toMatchObject({ scored: 0, unscored: 4 });
    const [one] = before.rollouts;
    const first = await regrade(one?.rolloutId ?? '', '--verifier', writeVerifier('exact', exact));
    expect(first.report).toMatchObject({ judged: 1, turned: 1 });

    const same = await regrade('crashed', '--only-unscored');
    const fixed = writeVerifier('exact', exact);
    const mended = await regrade('crashed', '--only-unscored', '--verifier', fixed);
    const nothing = await stack.command('regrade', 'crashed', '--only-unscored');

    expect(same).toMatchObject({ code: 3, report: { judged: 0, missing: 0 } });
    expect(same.report.rollouts).toHaveLength(3);
    expect(same.report.rollouts[0]?.why).toContain('no verdict');
    expect(mended).toMatchObject({ code: 0, report: { judged: 3, turned: 3 } });
    expect(nothing).toMatchObject({ code: 0, stdout: 'nothing to verify\n' });
    const after = await stack.command('watch', 'crashed', '--json');
    expect(rewardsOf(BatchReport.parse(JSON.parse(lastLine(after.stdout))))).toEqual([
      ['right', 1],
      ['wrong', 0],
      ['also', 1],
      ['near', 0],
    ]);
  });

  it.each(['worker', 'denv'] as const)(
    'the %s killed in the middle costs no judgement, and none is made twice',
    async (victim) => {
      const batch = `killed-${victim}`;
      const regradeId = `regrade/${batch}/1`;
      await runBatch(batch, tooKind);
      const slow = writeVerifier('gated', gated);
      const args = [batch, '--verifier', slow, '--concurrency', '2', '--json'];
      const regrading = start(stack.home, 'bin/rollouts', 'regrade', ...args);
      await regrading.says('4 rollouts to verify');
      const key = (task: string) => `${regradeId}/${idOf(batch, task)}/verify/0`;
      await stack.running(key('right'));
      await stack.running(key('wrong'));

      await stack.killAndAwait(victim);

      let over = false;
      const ended = regrading.ended.finally(() => (over = true));
      await until('the end of the regrade', () => {
        stack.openVerifiers();
        return Promise.resolve(over);
      });
      const { code, stdout } = await ended;
      expect(code).toBe(0);
      expect(Report.parse(JSON.parse(lastLine(stdout)))).toMatchObject({ judged: 4, turned: 2 });
      for (const task of Object.keys(answers)) {
        expect(await judgements(idOf(batch, task), regradeId)).toEqual([key(task)]);
      }
    },
  );

  it('a snapshot that is gone is named, and the others are judged', async () => {
    await runBatch('gone', tooKind);
    const result = (await stack.rollouts.ledger.rollout(idOf('gone', 'right')))?.result;
    const version = result?.verdicts[0]?.version ?? '';
    await stack.rollouts.denv.deleteVersion(version);
    const fixed = writeVerifier('exact', exact);

    const dry = await regrade('gone', '--verifier', fixed, '--dry-run');
    const { code, report } = await regrade('gone', '--verifier', fixed);

    const why = `its snapshot ${version} has expired or was removed`;
    expect(dry).toMatchObject({ code: 3, report: { missing: 1 } });
    expect(dry.report.rollouts[0]).toMatchObject({ rolloutId: idOf('gone', 'right'), why });
    expect(code).toBe(3);
    expect(report).toMatchObject({ judged: 3, missing: 1, turned: 2 });
    expect(report.rollouts[0]).toMatchObject({ before: 1, reward: 1, turned: false, why });
    const listed = await stack.command('checkpoints', idOf('gone', 'right'));
    expect(listed.stdout).toMatch(/final +ver_\w+ .*gone: it has expired or was removed/);
  });

  it('Ctrl-C stops its verifiers; nothing is judged that was not', async () => {
    await runBatch('stopped', tooKind);
    const args = ['stopped', '--verifier', writeVerifier('gated', gated), '--json'];
    const regrading = start(stack.home, 'bin/rollouts', 'regrade', ...args);
    await regrading.says('4 rollouts to verify');
    const keys = Object.keys(answers).map(
      (task) => `regrade/stopped/1/${idOf('stopped', task)}/verify/0`,
    );
    for (const key of keys) await stack.running(key);

    regrading.child.kill('SIGINT');

    const { code, stdout } = await regrading.ended;
    expect(code).toBe(3);
    const report = Report.parse(JSON.parse(lastLine(stdout)));
    expect(report).toMatchObject({ judged: 0, missing: 0, turned: 0 });
    expect(report.rollouts.map(({ why }) => why)).toEqual(keys.map(() => 'it was not judged'));
    for (const key of keys) {
      // One that was stopped is rolled back, as if it had never been.
      const operation = await settled(stack.rollouts.denv.operation(key));
      expect(operation?.state).not.toBe('running');
    }
    expect(await stack.rollouts.ledger.regrades({ regradeId: 'regrade/stopped/1' })).toEqual([]);
  });

  it('a ledger that lost them has them again, from what the denv server recorded', async () => {
    const before = await stack.rollouts.ledger.regrades({ regradeId: 'regrade/killed-worker/1' });
    const db = new DatabaseSync(join(stack.home, 'ledger.db'), { timeout: 10_000 });
    db.exec(`DELETE FROM regrades WHERE regrade_id = 'regrade/killed-worker/1'`);
    db.close();

    const looked = await stack.command('doctor', '--json');
    const repaired = await stack.command('doctor', '--repair', '--json');

    const findings = (stdout: string) => JSON.parse(stdout).findings as { what: string }[];
    expect(findings(looked.stdout)).toHaveLength(4);
    expect(findings(repaired.stdout)).toMatchObject(
      findings(looked.stdout).map(({ what }) => ({ what })),
    );
    const after = await stack.rollouts.ledger.regrades({ regradeId: 'regrade/killed-worker/1' });
    const plain = (rows: typeof after) =>
      rows
        .map(({ rolloutId, reward, version, current, verifierDigest }) => {
          return { rolloutId, reward, version, current, verifierDigest };
        })
        .sort((a, b) => a.rolloutId.localeCompare(b.rolloutId));
    expect(plain(after)).toEqual(plain(before));
    expect(JSON.parse((await stack.command('doctor', '--json')).stdout).findings).toEqual([]);
  });

  it('refuses what it cannot do, and starts nothing', async () => {
    const bad = join(stack.home, 'verifiers', 'bad.yaml');
    writeFileSync(bad, 'image: host\ncomand: [sh]\n');

    const refused = await stack.command('regrade', 'kind', '--verifier', bad);
    const unknown = await stack.command('regrade', 'no-such-batch');

    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain('bad.yaml:2: comand: unknown field');
    expect(unknown).toMatchObject({ code: 1, stdout: '' });
    expect(unknown.stderr).toContain('there is no batch or rollout no-such-batch');
  });
});
