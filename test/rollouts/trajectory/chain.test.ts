import type { TrajectoryEntry } from '../../../contracts/trajectory';
import { createDocuments } from '../../../rollouts/documents';
import {
  appendEntries,
  entriesBefore,
  headBefore,
  readEntries,
  readLinks,
} from '../../../rollouts/trajectory/chain';
import { findPoint, stepsIn } from '../../../rollouts/trajectory/checkpoints';
import { replyEntry } from '../../client/api/fork-world';
import { MemoryBlobs } from '../../fakes/memory-blobs';

const prompt: TrajectoryEntry = { type: 'prompt', text: 'Mend it.' };
const person = (step: number): TrajectoryEntry => ({ type: 'person', step, text: 'Look.' });
const observed = (step: number, durationS = 0.5): TrajectoryEntry => ({
  type: 'observation',
  step,
  observation: { toolCallId: 'c', name: 'bash', isError: false, content: [], durationS },
});

describe('a chain', () => {
  const store = () => createDocuments(new MemoryBlobs());

  it('is the same for the same entries, whatever the order of their fields', async () => {
    const documents = store();
    const turned = { text: 'Mend it.', type: 'prompt' } as const;

    const head = await appendEntries(documents, '', [prompt]);

    expect(await appendEntries(documents, '', [turned])).toBe(head);
    expect(await appendEntries(documents, head, [])).toBe(head);
    expect(await readEntries(documents, head)).toEqual([prompt]);
  });

  it('is read until a link that is known', async () => {
    const documents = store();
    const first = await appendEntries(documents, '', [prompt]);
    const second = await appendEntries(documents, first, [replyEntry(1, 'done')]);

    const links = await readLinks(documents, second, (ref) => ref === first);

    expect(links.map(({ ref, prev }) => [ref, prev])).toEqual([[second, first]]);
    expect(await readLinks(documents, '')).toEqual([]);
  });

  it('begins a step inside a link, where its reply is', async () => {
    const documents = store();
    const entries = [prompt, person(1), replyEntry(1, 'ls'), observed(1)];
    const links = await readLinks(documents, await appendEntries(documents, '', entries));

    const head = await headBefore(documents, links, 1);

    expect(await readEntries(documents, head)).toEqual([prompt, person(1)]);
  });
});

describe('what came before a step', () => {
  it('has what a person said at the step, and nothing of the step itself', () => {
    const entries = [prompt, replyEntry(1, 'ls'), observed(1), person(2), replyEntry(2, 'done')];

    expect(entriesBefore(entries, 2)).toEqual(entries.slice(0, 4));
    expect(entriesBefore(entries, 3)).toEqual(entries);
    expect(stepsIn(entries)).toEqual([1, 2]);
  });

  it('has no restore to an earlier step that was made in the step', () => {
    const restored: TrajectoryEntry = { type: 'restored', step: 1, version: 'v', why: 'w' };

    expect(entriesBefore([prompt, replyEntry(2, 'ls'), restored, observed(2)], 2)).toEqual([
      prompt,
    ]);
  });

  it('is charged in whole milliseconds, entry by entry, as a rollout charges it', async () => {
    const documents = createDocuments(new MemoryBlobs());
    const trajectory = await appendEntries(documents, '', [
      replyEntry(1, 'ls', { durationS: 0.0004 }),
      observed(1, 0.0004),
      replyEntry(2, 'ls', { durationS: 0.0014 }),
      observed(2),
      replyEntry(3, 'done'),
    ]);
    const progress = { trajectory, checkpoints: [] };

    const second = await findPoint(documents, progress, 2);
    const third = await findPoint(documents, progress, 3);

    expect(second?.spent).toEqual({ tokens: 3, costUsd: 0, workedS: 0 });
    expect(third?.spent).toEqual({ tokens: 6, costUsd: 0, workedS: 0.501 });
    expect(await findPoint(documents, progress, 4)).toBeNull();
  });
});
