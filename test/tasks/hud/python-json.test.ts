import { defaultSlug } from '../../../tasks/hud/rows';
import { parseAsWritten } from '../../../json/lossless';
import { dumpAsPython } from '../../../tasks/hud/python-json';

describe('JSON as Python has it', () => {
  // Made by hud 0.6.21 itself, with Python 3.11.
  it.each([
    ['{}', 't'],
    ['{"a":2,"b":3}', 't-001a8858'],
    ['{"b":3,"a":2}', 't-001a8858'],
    ['{"a":1}', 't-e4ad4daa'],
    ['{"a":1.0}', 't-f1a5ef31'],
    ['{"a":1e2}', 't-ed93fcc3'],
    ['{"a":1e16}', 't-17dca385'],
    ['{"a":1e22}', 't-90146223'],
    ['{"a":123456789012345680.0}', 't-ca82a896'],
    ['{"a":0.0001,"b":0.00001,"c":-0.0,"d":-0}', 't-6884e841'],
    ['{"a":1152921504606846976}', 't-623f1a0e'],
    ['{"a":1E400}', 't-d7ef66c0'],
    [
      String.raw`{"z":[1,2.5,{"y":null,"x":true,"w":false}],"s":"caf\u00e9 \ud83d\ude00 \u007f \"q\" \\ \n\t\u0001"}`,
      't-f0eaf02b',
    ],
    [String.raw`{"\uffff":1,"\ud83d\ude00":2}`, 't-dd1e7ea9'],
    ['{"a":1.10,"b":0.1,"c":5e-324,"d":1.7976931348623157e308}', 't-94542899'],
    ['{"a":[], "b":{}}', 't-81e8dbaa'],
    ['{"a":100000.0,"b":12345.678,"c":9999999999999998.0}', 't-86b50248'],
  ])('gives the arguments %s the default slug of HUD', (args, slug) => {
    expect(defaultSlug('t', parseAsWritten(args))).toBe(slug);
  });

  it('writes numbers as Python would', () => {
    const text = '{"a": 1.0, "b": 1E3, "c": 123456789012345678901, "d": 1e-7, "e": 2.50}';

    expect(dumpAsPython(parseAsWritten(text))).toBe(
      '{"a": 1.0, "b": 1000.0, "c": 123456789012345678901, "d": 1e-07, "e": 2.5}',
    );
  });
});
