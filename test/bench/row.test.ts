import { tableOf } from '../../bench/report';
import { limitRow, median, percentile, ratioRow } from '../../bench/row';

describe('percentile', () => {
  test.each([
    [[3, 1, 2], 0.5, 2],
    [[4, 1, 3, 2], 0.5, 2.5],
    [[1, 2, 3, 4, 5], 0.95, 4.8],
    [[7], 0.95, 7],
  ])('of %j at %d is %d', (values, p, expected) => {
    expect(percentile(values, p)).toBeCloseTo(expected, 10);
  });

  test('refuses to make a number of nothing', () => {
    expect(() => median([])).toThrow('no values were measured');
  });
});

describe('rows', () => {
  const fork = { name: 'fork', what: 'live fork', unit: 'ms' as const };
  const bare = { what: 'bare', values: [40, 60] };

  test.each([
    [[75], true],
    [[76], false],
  ])('holds a ratio of the medians: %j', (ours, ok) => {
    expect(ratioRow(fork, ours, bare, 1.5)).toMatchObject({ hold: '<= 1.5 x', ok });
  });

  test.each([
    [50, true],
    [50.1, false],
  ])('holds a limit: %d', (ours, ok) => {
    expect(limitRow(fork, ours, 50)).toMatchObject({ hold: '<= 50 ms', ratio: null, ok });
  });

  test('reads as a table, notes below their row', () => {
    const rows = [
      ratioRow(fork, [75], bare, 1.4),
      limitRow({ name: 'size', what: 'history', unit: 'MB', notes: ['1 run'] }, 0.25, 0.3),
    ];

    expect(tableOf(rows).split('\n')).toEqual(
      [
        'what       ours     the other side  ratio   to hold    ',
        '---------  -------  --------------  ------  ---------  ------',
        'live fork  75 ms    50 ms  bare     1.50 x  <= 1.4 x   MISSED',
        'history    0.25 MB                          <= 0.3 MB  ok',
        '    1 run',
      ].map((line) => line.trimEnd()),
    );
  });
});
