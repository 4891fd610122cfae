import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { workflowBundle } from '../temporal-env';

const files = globSync('*.json', { cwd: __dirname }).sort();

interface RecordedEvent {
  eventType: string;
  activityTaskScheduledEventAttributes?: { activityType: { name: string } };
}
interface Recorded {
  events: RecordedEvent[];
}

const read = (file: string): Recorded =>
  JSON.parse(readFileSync(join(__dirname, file), 'utf8')) as Recorded; // written by record.real.test.ts

/** The error of each history by name; null where it replays. */
async function replay(histories: Record<string, Recorded>): Promise<Record<string, string | null>> {
  const named = Object.entries(histories).map(([workflowId, history]) => ({ workflowId, history }));
  const codePath = await workflowBundle();
  const outcomes: Record<string, string | null> = {};
  for await (const { workflowId, error } of Worker.runReplayHistories(
    { workflowBundle: { codePath } },
    named,
  )) {
    outcomes[workflowId] = error ? error.message : null;
  }
  return outcomes;
}

describe('recorded histories', () => {
  beforeAll(() => {
    Runtime.install({ logger: new DefaultLogger('ERROR') });
  });

  test('are there, one that was cancelled and one that continued as new among them', () => {
    const lastOf = (file: string) => read(file).events.at(-1)?.eventType;

    expect(files.length).toBeGreaterThanOrEqual(8);
    expect(lastOf('cancelled.json')).toBe('EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED');
    expect(lastOf('continued.json')).toBe('EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW');
  });

  test('are replayed by today’s workflows', async () => {
    const outcomes = await replay(
      Object.fromEntries(files.map((file) => [basename(file, '.json'), read(file)])),
    );

    expect(outcomes).toEqual(
      Object.fromEntries(files.map((file) => [basename(file, '.json'), null])),
    );
  });

  test('would not be, were the order of the stages another', async () => {
    const history = read('nop.json');
    const scheduled = history.events.find((event) => event.activityTaskScheduledEventAttributes);
    if (!scheduled?.activityTaskScheduledEventAttributes) throw new Error('no activity');
    scheduled.activityTaskScheduledEventAttributes.activityType.name = 'verify';

    const outcomes = await replay({ changed: history });

    expect(outcomes.changed).toMatch(/[Nn]ondeterminism/);
  });
});
