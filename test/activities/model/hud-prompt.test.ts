import { openingOf } from '../../../activities/model/hud-prompt';
import { MemoryBlobs } from '../../fakes/memory-blobs';

const image = { type: 'image', data: 'AAEC', mimeType: 'image/png' };

describe('openingOf', () => {
  test.each([
    ['Add.', [{ type: 'prompt', text: 'Add.' }]],
    [[{ role: 'user', content: { type: 'text', text: 'a' } }], [{ type: 'prompt', text: 'a' }]],
    [
      [
        { role: 'system', content: 's' },
        { role: 'assistant', content: [{ type: 'text', text: 'a' }] },
        { role: 'tool', content: 't' },
      ],
      [
        { type: 'system', text: 's' },
        { type: 'prompt', text: 'a', role: 'assistant' },
        { type: 'prompt', text: 't' },
      ],
    ],
  ])('%j', async (prompt, entries) => {
    expect(await openingOf(new MemoryBlobs(), prompt)).toEqual({ entries });
  });

  test.each([[null], [undefined], [[]]])('%j is no prompt', async (prompt) => {
    expect(await openingOf(new MemoryBlobs(), prompt)).toBeNull();
  });

  test.each([
    ['a block', image],
    ['a data URL', { type: 'image_url', image_url: { url: 'data:image/png;base64,AAEC' } }],
  ])('keeps an image that is %s', async (_what, block) => {
    const blobs = new MemoryBlobs();

    const opening = await openingOf(blobs, [{ role: 'user', content: [block] }]);

    const [entry] = opening?.entries ?? [];
    const [kept] = entry?.type === 'prompt' ? (entry.images ?? []) : [];
    expect(kept).toMatchObject({ mimeType: 'image/png', bytes: 3 });
    expect(await blobs.get(kept?.type === 'image' ? kept.ref : '')).toEqual(Buffer.from([0, 1, 2]));
  });

  test('reads megabytes of base64', async () => {
    const data = Buffer.alloc(9 * 1024 * 1024).toString('base64');

    const opening = await openingOf(new MemoryBlobs(), [
      { role: 'user', content: [{ ...image, data }] },
    ]);

    expect(opening?.entries[0]).toMatchObject({ images: [{ bytes: 9 * 1024 * 1024 }] });
  });

  test.each([
    [
      [{ role: 'user', content: [{ type: 'audio', data: '' }] }],
      'message 0 has a block of type "audio"',
    ],
    [[{ role: 'user', content: [{ ...image, data: '/tmp/a.png?' }] }], 'type "image"'],
    [[{ role: 'user', content: [4] }], 'message 0 has a block of no type'],
    [[{ role: 'assistant', content: [image] }], 'has an image in the role assistant'],
    [['hello'], 'neither a text nor a list of messages'],
    [{ text: 'hello' }, 'neither a text nor a list of messages'],
  ])('refuses %j', async (prompt, why) => {
    await expect(openingOf(new MemoryBlobs(), prompt)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(why),
    });
  });
});
