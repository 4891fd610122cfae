import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { openTemporal } from '../temporal-env';
import type { TemporalEnv } from '../temporal-env';
import { scenes } from './scenes';

const asked = process.env.RECORD_HISTORIES === '1';

(asked ? describe : describe.skip)('recording histories (only with RECORD_HISTORIES=1)', () => {
  let usual: TemporalEnv;
  let soonFull: TemporalEnv;

  beforeAll(async () => {
    usual = await openTemporal();
    soonFull = await openTemporal({ continueAt: 45 });
  });

  afterAll(async () => {
    await usual.close();
    await soonFull.close();
  });

  test.each(Object.keys(scenes))('records %s', async (name) => {
    const handles = (await scenes[name]?.(name === 'continued' ? soonFull : usual)) ?? [];

    expect(handles.length).toBeGreaterThan(0);
    for (const [index, handle] of handles.entries()) {
      const file = join(__dirname, `${name}${index > 0 ? `-${index + 1}` : ''}.json`);
      writeFileSync(file, textOf(await handle.fetchHistory()));
    }
  });
});

/** One event a line; who recorded it, and where the code lay, is nobody's business. */
function textOf(history: Parameters<typeof historyToJSON>[0]): string {
  const { events } = JSON.parse(historyToJSON(history), withoutStack) as { events: object[] }; // its own JSON
  const lines = events.map((event) => JSON.stringify(event)).join(',\n');
  return `{"events":[\n${lines}\n]}\n`.replaceAll(/\d+@[\w.-]+/g, 'worker');
}

const withoutStack = (key: string, value: unknown): unknown => (key === 'stackTrace' ? '' : value);
