import { mkdtempSync, rmSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { settingsFrom } from '../../worker/config';

const least = { HOME: '/home/p', DENV_SERVER: 'http://127.0.0.1:7300', DENV_API_KEY: 'dak_1' };

describe('settingsFrom', () => {
  test('has defaults for all but the denv server', () => {
    expect(settingsFrom(least)).toEqual({
      taskQueue: 'rollouts',
      blobs: '/home/p/.local/state/denv-rollouts/blobs',
      ledger: '/home/p/.local/state/denv-rollouts/ledger.db',
      ownerFile: '/home/p/.local/state/denv-rollouts/owner',
      retention: { days: 7, budgetBytes: null },
      denv: { server: 'http://127.0.0.1:7300', apiKey: 'dak_1' },
      models: {
        baseUrls: {
          openai: 'https://api.openai.com/v1',
          anthropic: 'https://api.anthropic.com',
          google: 'https://generativelanguage.googleapis.com',
          scripted: null,
        },
        keys: [],
      },
    });
  });

  test('takes how long versions stay, and how much they may take', () => {
    const { retention } = settingsFrom({
      ...least,
      ROLLOUTS_VERSIONS_DAYS: '0.5',
      ROLLOUTS_VERSIONS_GB: '2',
    });

    expect(retention).toEqual({ days: 0.5, budgetBytes: 2 * 2 ** 30 });
  });

  test('binds each key to the base URL beside it', () => {
    const { models } = settingsFrom({
      ...least,
      OPENAI_API_KEY: 'sk-1',
      OPENAI_BASE_URL: 'http://127.0.0.1:8000/v1',
      ANTHROPIC_API_KEY: 'sk-2',
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:8001',
      GOOGLE_API_KEY: 'sk-3',
      SCRIPTED_BASE_URL: 'http://127.0.0.1:4100/v1',
    });

    expect(models).toEqual({
      baseUrls: {
        openai: 'http://127.0.0.1:8000/v1',
        anthropic: 'http://127.0.0.1:8001',
        google: 'https://generativelanguage.googleapis.com',
        scripted: 'http://127.0.0.1:4100/v1',
      },
      keys: [
        { provider: 'openai', baseUrl: 'http://127.0.0.1:8000/v1', apiKey: 'sk-1' },
        { provider: 'anthropic', baseUrl: 'http://127.0.0.1:8001', apiKey: 'sk-2' },
        {
          provider: 'google',
          baseUrl: 'https://generativelanguage.googleapis.com',
          apiKey: 'sk-3',
        },
      ],
    });
  });

  test('takes GEMINI_API_KEY before GOOGLE_API_KEY', () => {
    const { models } = settingsFrom({ ...least, GOOGLE_API_KEY: 'sk-3', GEMINI_API_KEY: 'sk-4' });

    expect(models.keys).toMatchObject([{ provider: 'google', apiKey: 'sk-4' }]);
  });

  test('reads the key of the embedded server from its file', () => {
    const home = mkdtempSync(join(tmpdir(), 'rollouts-home-'));
    try {
      mkdirSync(join(home, 'denv'));
      writeFileSync(join(home, 'denv', 'key'), 'dak_2\n');

      const { denv } = settingsFrom({ ...least, DENV_API_KEY: '', ROLLOUTS_HOME: home });

      expect(denv.apiKey).toBe('dak_2');
    } finally {
      rmSync(home, { recursive: true });
    }
  });

  test.each([
    [{ DENV_SERVER: '' }, /^DENV_SERVER: /],
    [{ DENV_SERVER: 'somewhere' }, 'DENV_SERVER: an http or https address'],
    [{ ROLLOUTS_VERSIONS_GB: 'much' }, 'ROLLOUTS_VERSIONS_GB: a number'],
    [{ ROLLOUTS_VERSIONS_DAYS: '0' }, 'ROLLOUTS_VERSIONS_DAYS: more than 0'],
    [{ OPENAI_BASE_URL: 'ftp://x' }, 'OPENAI_BASE_URL: an http or https address'],
    [
      { DENV_API_KEY: '' },
      'DENV_API_KEY is not set, and /home/p/.local/state/denv-rollouts/denv/key cannot be read',
    ],
  ])('refuses %j and says which', (change, message) => {
    expect(() => settingsFrom({ ...least, ...change })).toThrow(message);
  });
});
