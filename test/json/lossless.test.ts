import { parseAsWritten, parsePlain, stringifyPlain, toNumber, toPlain } from '../../json/lossless';

const $ = (digits: string) => ({ $number: digits });

describe('parsePlain', () => {
  it.each<[string, unknown]>([
    ['{"a":1,"b":[true,null,"x"]}', { a: 1, b: [true, null, 'x'] }],
    ['[NaN,Infinity,-Infinity]', [$('NaN'), $('Infinity'), $('-Infinity')]],
    ['{"a":NaN}', { a: $('NaN') }],
    ['NaN', $('NaN')],
    [
      '[1152921504606846976,-1152921504606846976]',
      [$('1152921504606846976'), $('-1152921504606846976')],
    ],
    ['[9007199254740991,9007199254740993]', [9007199254740991, $('9007199254740993')]],
    [
      '[0.30000000000000004,1.2345678901234567e+300,-1e-300]',
      [0.30000000000000004, 1.2345678901234567e300, -1e-300],
    ],
    ['[1e999,-1e999,1e300]', [$('Infinity'), $('-Infinity'), 1e300]],
    ['{"1152921504606846976":1,"NaN":NaN}', { '1152921504606846976': 1, NaN: $('NaN') }],
    [
      '["NaN, Infinity 1152921504606846976","\\\\",NaN,"\\"NaN\\"","\\\\\\"1152921504606846976"]',
      ['NaN, Infinity 1152921504606846976', '\\', $('NaN'), '"NaN"', '\\"1152921504606846976'],
    ],
    ['"caf\\u00e9 \\ud83d\\ude00"', 'café 😀'],
    ['{"a":1,"a":1152921504606846976}', { a: $('1152921504606846976') }],
    ['{"__proto__":{"a":NaN}}', JSON.parse('{"__proto__":{"a":{"$number":"NaN"}}}')],
    ['[-0, 0.0, 9007199254740993.0]', [-0, 0, 9007199254740992]],
  ])('reads %s', (text, value) => {
    expect(parsePlain(text)).toEqual(value);
  });

  it.each(['', '{', 'nan', '[NaN', '"NaN', 'NaNa', 'xInfinity', '[01152921504606846976]', '"\\'])(
    'refuses %j',
    (text) => {
      expect(() => parsePlain(text)).toThrow(expect.objectContaining({ name: 'SyntaxError' }));
    },
  );

  it.each([
    ['one long text', JSON.stringify('NaN 1152921504606846976 '.repeat(700_000))],
    ['backslashes and quotes', JSON.stringify('\\"'.repeat(4_000_000))],
    ['many short texts', JSON.stringify(Array.from({ length: 1_200_000 }, (_, n) => `t${n}`))],
    ['numbers', JSON.stringify(Array.from({ length: 2_000_000 }, (_, n) => n))],
  ])('reads a frame full of %s, with a NaN behind it', (_, text) => {
    const value = parsePlain(`{"full":${text},"loss":NaN}`);

    // Compared as text: a matcher would take longer than all the reading.
    expect(JSON.stringify(value) === `{"full":${text},"loss":{"$number":"NaN"}}`).toBe(true);
  });
});

describe('stringifyPlain', () => {
  it('gives Python back the numbers that JavaScript could not hold', () => {
    const text =
      '{"a":NaN,"b":[-Infinity,1152921504606846976],"c":"{\\"$number\\":\\"NaN\\"}","d":0.5}';

    expect(stringifyPlain(parsePlain(text))).toBe(text);
  });

  it('leaves what only looks like one', () => {
    const value = [{ $number: 'x' }, { $number: 'NaN', more: 1 }, '{"$number":"NaN"}'];

    expect(stringifyPlain(value)).toBe(JSON.stringify(value));
  });
});

describe('toNumber', () => {
  it.each([
    [0.5, 0.5],
    [$('Infinity'), Infinity],
    [$('1152921504606846976'), 2 ** 60],
    ['1', null],
    [true, null],
    [null, null],
    [{}, null],
  ])('takes %j for %j', (value, number) => {
    expect(toNumber(value)).toBe(number);
  });
});

describe('toPlain', () => {
  it('keeps the digits of numbers that a double cannot hold', () => {
    const args = parseAsWritten(
      '{"big": [9007199254740993, 9007199254740991], "over": -1e999, "zero": -0}',
    );

    expect(toPlain(args)).toEqual({
      big: [{ $number: '9007199254740993' }, 9007199254740991],
      over: { $number: '-Infinity' },
      zero: -0,
    });
  });
});
