import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { missingPrice, readPrice } from '../../tasks/prices';

describe('prices', () => {
  let dir: string;
  let file: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'prices-'));
    file = join(dir, 'prices.json');
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const price = { promptUsdPerMTok: 2, completionUsdPerMTok: 8 };

  it('come from the price file', async () => {
    await writeFile(file, JSON.stringify({ 'openai/m': price }));

    expect(await readPrice('openai/m', file)).toEqual(price);
    expect(await readPrice('openai/n', file)).toBeNull();
  });

  it('are nothing for scripted models, and unknown without a file', async () => {
    expect(await readPrice('scripted/x', file)).toEqual({
      promptUsdPerMTok: 0,
      completionUsdPerMTok: 0,
    });
    expect(await readPrice('openai/m', file)).toBeNull();
  });

  it.each([
    ['{', /prices\.json is not JSON/],
    [
      '{"openai/m": {"promptUsdPerMTok": "2"}}',
      /prices\.json is not a price file: .*each entry is/s,
    ],
  ])('refuse a malformed file: %s', async (text, told) => {
    await writeFile(file, text);

    await expect(readPrice('openai/m', file)).rejects.toThrow(told);
  });

  it('that are missing name the file and the entry to add', () => {
    expect(missingPrice('openai/m', '/h/prices.json').message).toBe(
      'a cost limit (limits.maxCostUsd) needs the price of openai/m, which /h/prices.json does not have; ' +
        'add an entry with your provider\u2019s prices, as in ' +
        '{"openai/m":{"promptUsdPerMTok":0.5,"completionUsdPerMTok":1.5}}, or leave the limit out',
    );
  });
});
