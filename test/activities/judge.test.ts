import type { Grader } from '../../contracts/task';
import { activitiesOnFakes, run } from './on-fakes';
import type { ActivitiesOnFakes } from './on-fakes';

const grader: Extract<Grader, { kind: 'judge' }> = {
  kind: 'judge',
  name: 'style',
  model: 'openai/judge',
  baseUrl: 'http://127.0.0.1:1/v1',
  criteria: ['Short.', { text: 'Kind.', weight: 3 }, { text: 'Rude.', weight: -0.5 }],
};

async function input(bench: ActivitiesOnFakes, more: Partial<typeof grader> = {}) {
  const task = { grading: { graders: [{ ...grader, ...more }] } };
  return {
    key: 'rollout/b/t/0/1/grade/style',
    taskRef: await bench.put(bench.packed(task)),
    index: 0,
    head: '',
    timeoutS: 5,
    waitS: 60,
    sandboxId: 'sb_1',
    leaseS: 300,
  };
}

/** What a judge writes, one text a criterion. */
function writing(...texts: string[]): ActivitiesOnFakes {
  let asked = 0;
  return activitiesOnFakes(() => ({ text: texts[asked++] ?? '' }));
}

describe('judge', () => {
  test.each([
    [['MET', 'MET', 'UNMET'], 1],
    [['UNMET', 'Because.\n\n**MET**\n', 'unmet.'], 0.75],
    [['MET', 'UNMET', 'MET'], -0.25],
  ])('%j gives %d', async (texts, reward) => {
    const bench = writing(...texts);

    const grade = await run(bench.activities.judge, await input(bench));

    expect(grade.reward).toBe(reward);
    expect(bench.model.requests.map(({ model }) => model)).toEqual(
      Array.from({ length: 3 }, () => ({
        name: 'openai/judge',
        baseUrl: 'http://127.0.0.1:1/v1',
        settings: {},
        price: null,
      })),
    );
  });

  test.each([['MET or UNMET'], ['MET\nbut then again'], [''], ['It is UNMETERED'], ['METUNMET']])(
    '%j cannot be read',
    async (text) => {
      const bench = writing(text, 'MET', 'MET');

      const grade = await run(bench.activities.judge, await input(bench));

      expect(grade).toMatchObject({
        reward: null,
        rewards: { 'criterion-2': 1, 'criterion-3': 1 },
        summary: expect.stringContaining('no verdict on criterion 1'),
      });
    },
  );

  test('an answer that is recorded is never asked for again, by whichever worker', async () => {
    const bench = writing('MET', 'MET', 'UNMET', 'UNMET');
    const given = await input(bench);
    const first = await run(bench.activities.judge, given);

    const second = await run(bench.otherWorker().judge, given, 2);

    expect(second).toEqual(first);
    expect(bench.model.requests).toHaveLength(3);
    expect(bench.model.requests.map(({ key }) => key)).toEqual([
      'rollout/b/t/0/1/grade/style/0',
      'rollout/b/t/0/1/grade/style/1',
      'rollout/b/t/0/1/grade/style/2',
    ]);
  });

  test('asks the question that it was given, and keeps what it cost as evidence', async () => {
    const bench = writing('MET');

    const grade = await run(
      bench.activities.judge,
      await input(bench, { question: 'Is it good?', criteria: ['Good.'] }),
    );

    const [message] = bench.model.requests[0]?.messages ?? [];
    expect(JSON.stringify(message)).toContain('Is it good?');
    expect(JSON.stringify(message)).not.toContain('Mend it.');
    expect(JSON.parse(String(await bench.blobs.get(grade.evidenceRef)))).toEqual({
      principal: 'model',
      model: 'openai/judge',
      question: 'Is it good?',
      judged: [
        {
          criterion: 'Good.',
          weight: 1,
          met: true,
          text: 'MET',
          usage: { promptTokens: 10, completionTokens: 5, costUsd: null },
        },
      ],
    });
  });
});
