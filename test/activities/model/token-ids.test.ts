import { checkIds } from '../../../activities/model/reply';
import type { ModelReply, TrajectoryEntry } from '../../../contracts/trajectory';

const reply = (promptTokenIds?: number[], tokenIds?: number[]): ModelReply => ({
  text: '',
  toolCalls: [],
  finishReason: 'stop',
  usage: { promptTokens: 0, completionTokens: 0, costUsd: null },
  durationS: 0,
  model: 'm',
  ...(promptTokenIds ? { promptTokenIds } : {}),
  ...(tokenIds ? { tokenIds } : {}),
});

const entries = (...replies: ModelReply[]): TrajectoryEntry[] =>
  replies.map((one, index) => ({ type: 'reply', step: index + 1, reply: one }));

describe('checkIds', () => {
  const first = reply([1, 2], [3]);

  test.each([
    ['the first one', [], reply([1, 2], [3]), 'extend'],
    ['one that goes on from the last', [first], reply([1, 2, 3, 4], [5]), 'extend'],
    ['one whose prompt is no longer than that', [first], reply([1, 2, 3], []), 'extend'],
    ['one that was tokenized anew', [first], reply([1, 2, 9, 4], [5]), 'broken'],
    ['one whose prompt is shorter', [first], reply([1, 2], [5]), 'broken'],
    ['one after a reply without ids', [first, reply()], reply([1, 2, 3], [5]), 'broken'],
    ['one without ids', [first], reply(), undefined],
    ['one with those of its prompt alone', [first], reply([1, 2, 3, 4]), undefined],
  ] as const)('%s', (_what, before, said, check) => {
    expect(checkIds(entries(...before), said)).toBe(check);
  });
});
