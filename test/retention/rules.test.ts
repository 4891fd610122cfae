import { holdOf, planRetention } from '../../retention/rules';
import type { Hold, RolloutFacts, VersionFacts } from '../../retention/rules';
import { at, dayMs, factsWith, hourMs, now } from './versions';

const rules = { days: 7, budgetBytes: null };

const own = (verdict: 'reward' | 'refused' | 'none', version = 'ver_1') => ({
  version,
  verdict,
  later: false,
});
const later = (verdict: 'reward' | 'none') => ({ version: 'ver_1', verdict, later: true });

describe('what keeps a version', () => {
  test.each<[string, VersionFacts, Hold['kind'], string]>([
    ['a live sandbox', factsWith({}, { version: { usedBy: ['sb_9'] } }), 'work', 'sb_9'],
    ['a regrade under way', factsWith({}, { beingJudged: true }), 'work', 'a regrade'],
    ['a rollout that runs', factsWith({ state: 'live' }), 'work', 'its rollout runs'],
    ['what goes on from it', factsWith({ neededBy: 'x goes on from it' }), 'work', 'x goes on'],
    ['nobody knowing its rollout', factsWith(null), 'unknown', 'the ledger does not know'],
    ['nobody knowing if it ended', factsWith({ state: 'unknown' }), 'unknown', 'nobody knows'],
    ['nobody knowing what to keep', factsWith({ keep: 'unknown' }), 'unknown', 'started with'],
    ['its verdict', factsWith({ judged: [own('reward')] }), 'verdict', 'its verdict judged it'],
    ['a refusal', factsWith({ judged: [own('refused')] }), 'verdict', 'its verdict judged it'],
    ['a verifier to be run again', factsWith({ judged: [own('none')] }), 'policy', 'no verdict'],
    ['another version’s verdict: not', factsWith({ judged: [own('reward', 'ver_2')] }), 'none', ''],
    ['`all`', factsWith({ keep: 'all' }), 'policy', 'all are kept'],
    ['another’s checkpoint', factsWith({}, { sharedBy: 'rollout/c' }), 'policy', 'rollout/c'],
    ['the best of its group', factsWith({ keep: 'best', best: true }), 'policy', 'of the best'],
    ['a group that runs', factsWith({ keep: 'best', best: null }), 'policy', 'not known yet'],
    ['not being the best: not', factsWith({ keep: 'best', best: false }), 'none', '(best)'],
    [
      'the verdict of one that is not the best',
      factsWith({ keep: 'best', best: false, judged: [own('reward')] }),
      'verdict',
      'its verdict',
    ],
    [
      '`none`: not its own verdict',
      factsWith({ keep: 'none', judged: [own('reward')] }),
      'none',
      '',
    ],
    ['`none`: not a missing one', factsWith({ keep: 'none', judged: [own('none')] }), 'none', ''],
    [
      '`none`: a verdict asked for later',
      factsWith({ keep: 'none', judged: [own('reward'), later('reward')] }),
      'verdict',
      'a later verdict',
    ],
    [
      '`none`: not a later one that gave nothing',
      factsWith({ keep: 'none', judged: [later('none')] }),
      'none',
      '',
    ],
    ['`final`: no checkpoint', factsWith({ keep: 'final' }), 'none', 'nothing keeps it (final)'],
    ['nobody having said: a day', factsWith({ keep: null }), 'spare', 'a day after'],
    [
      'nobody having said, after that day',
      factsWith({ keep: null, endedMs: now - dayMs }),
      'none',
      'nothing keeps it (final)',
    ],
  ])('%s', (_title, facts, kind, why) => {
    const hold = holdOf(facts, rules, now);

    expect(hold.kind).toBe(kind);
    expect(hold.why).toContain(why);
  });

  const old = { version: { createdAt: at(8 * dayMs) } };
  test.each<[string, Partial<RolloutFacts>]>([
    ['a verdict', { judged: [own('reward')] }],
    ['a later verdict', { judged: [later('reward')] }],
    ['a policy', { keep: 'all' }],
    ['a day of grace', { keep: null }],
  ])('%s ends with its age', (_title, rollout) => {
    expect(holdOf(factsWith(rollout, old), rules, now)).toEqual({
      kind: 'none',
      why: 'older than 7 days',
    });
  });

  test.each<[string, VersionFacts]>([
    ['a rollout that runs', factsWith({ state: 'live' }, old)],
    ['an exploration', factsWith({ neededBy: 'exploration x' }, old)],
    ['a regrade', factsWith({}, { ...old, beingJudged: true })],
    ['a sandbox', factsWith({}, { version: { ...old.version, usedBy: ['sb_9'] } })],
  ])('%s does not end with its age', (_title, facts) => {
    expect(holdOf(facts, rules, now).kind).toBe('work');
  });
});

describe('the plan', () => {
  const sized = (
    id: string,
    hoursOld: number,
    rollout: Partial<RolloutFacts>,
    more: Partial<VersionFacts['version']> = {},
  ) =>
    factsWith(rollout, { version: { id, createdAt: at(hoursOld * hourMs), bytes: 10, ...more } });
  const all = [
    sized('spare-new', 1, { keep: null }),
    sized('kept-new', 2, { keep: 'all' }),
    sized('verdict', 9, { judged: [own('reward', 'verdict')] }),
    sized('spare-old', 3, { keep: null }),
    sized('kept-old', 5, { keep: 'all' }),
    sized('running', 10, { state: 'live' }),
    sized('nothing', 4, {}),
  ];

  test.each<[number | null, string[], number]>([
    [null, ['nothing'], 0],
    [60, ['nothing'], 0],
    [55, ['nothing', 'spare-old'], 0],
    [40, ['nothing', 'spare-old', 'spare-new'], 0],
    [30, ['kept-old', 'nothing', 'spare-old', 'spare-new'], 0],
    [20, ['kept-old', 'nothing', 'spare-old', 'kept-new', 'spare-new'], 0],
    [5, ['kept-old', 'nothing', 'spare-old', 'kept-new', 'spare-new'], 15],
  ])('with a budget of %s removes %j', (budgetBytes, removed, overBytes) => {
    const plan = planRetention(all, { days: 7, budgetBytes }, now);

    expect(plan.remove.map(({ version }) => version.id)).toEqual(removed);
    expect(plan).toMatchObject({ bytes: 70, overBytes });
  });

  it('says why each goes', () => {
    const { remove } = planRetention(all, { days: 7, budgetBytes: 50 }, now);

    expect(remove.map(({ version, why }) => [version.id, why])).toEqual([
      ['nothing', 'nothing keeps it (final)'],
      ['spare-old', 'the disk budget is used up'],
    ]);
  });

  it('makes no room by what holds nothing alone', () => {
    const plan = planRetention(
      [
        sized('shares-all', 9, { keep: 'all' }, { bytes: 0 }),
        sized('older', 8, { keep: 'all' }),
        sized('newer', 7, { keep: 'all' }),
      ],
      { days: 7, budgetBytes: 10 },
      now,
    );

    expect(plan.remove.map(({ version }) => version.id)).toEqual(['older']);
  });

  it('counts a version that nobody has measured as empty', () => {
    const plan = planRetention(
      [sized('kept', 1, { keep: 'all' }, { bytes: null })],
      { days: 7, budgetBytes: 1 },
      now,
    );

    expect(plan).toMatchObject({ remove: [], bytes: 0, overBytes: 0 });
  });

  const until = (hours: number) => ({ retainUntil: at(-hours * hourMs) });
  test.each<[string, VersionFacts, number | null]>([
    ['kept, for less than its age', sized('v', 24, { keep: 'all' }, until(5)), 6 * 24 * 3600],
    ['kept, for all of its age', sized('v', 24, { keep: 'all' }, until(6 * 24)), null],
    ['at work, for less than a day', sized('v', 300, { state: 'live' }, until(2)), 7 * 24 * 3600],
    ['at work, for longer', sized('v', 300, { state: 'live' }, until(30)), null],
    ['spare', sized('v', 1, { keep: null }, until(2)), null],
    ['of a rollout that nobody knows', factsWith(null, { version: until(2) }), null],
    ['going', sized('v', 1, {}, until(2)), null],
  ])('of one that is %s, has the server keep it for %s s', (_title, facts, retentionS) => {
    const { retain } = planRetention([facts], rules, now);

    expect(retain.map((one) => one.retentionS)).toEqual(retentionS === null ? [] : [retentionS]);
  });
});
