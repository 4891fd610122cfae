import { showReply, showText } from '../../../rollouts/trajectory/observations';
import { MemoryBlobs } from '../../fakes/memory-blobs';

const reply = (result: Record<string, unknown>) => ({ result, timedOut: false, durationS: 1 });

describe('showText', () => {
  test('shows 32 KiB whole', async () => {
    const text = 'x'.repeat(32 * 1024);

    expect(await showText(new MemoryBlobs(), text, false)).toEqual({
      isError: false,
      content: [{ type: 'text', text }],
    });
  });

  test('cuts more in the middle, says how much is left out, and keeps the whole', async () => {
    const blobs = new MemoryBlobs();
    const text = `${'a'.repeat(5_000_000)}${'b'.repeat(5_000_000)}`;

    const shown = await showText(blobs, text, false);

    expect(shown.content).toEqual([
      {
        type: 'text',
        text: `${'a'.repeat(24_576)}\n[9967232 of 10000000 bytes are left out here]\n${'b'.repeat(8192)}`,
      },
    ]);
    expect(shown.full?.bytes).toBe(10_000_000);
    expect((await blobs.get(shown.full?.ref ?? '')).toString()).toBe(text);
  });

  test('never shows half a character', async () => {
    const shown = await showText(new MemoryBlobs(), `x${'€'.repeat(20_000)}`, false);

    const text = shown.content[0]?.type === 'text' ? shown.content[0].text : '';
    expect(text).not.toContain('\ufffd');
    expect(text.startsWith('x€')).toBe(true);
    expect(text.endsWith('€')).toBe(true);
  });
});

describe('showReply', () => {
  const show = (result: Record<string, unknown>, blobs = new MemoryBlobs()) =>
    showReply(blobs, reply(result), 10);

  test('joins texts and keeps images as blobs', async () => {
    const blobs = new MemoryBlobs();
    const data = Buffer.from('png').toString('base64');

    const shown = await show(
      {
        content: [
          { type: 'text', text: 'a' },
          { type: 'image', data, mimeType: 'image/png' },
          { type: 'text', text: 'b' },
        ],
      },
      blobs,
    );

    const { ref } = await blobs.put(Buffer.from('png'));
    expect(shown).toEqual({
      isError: false,
      content: [
        { type: 'text', text: 'a\nb' },
        { type: 'image', mimeType: 'image/png', ref, bytes: 3 },
      ],
    });
  });

  test('a tool that says it failed is an observation', async () => {
    const shown = await show({ isError: true, content: [{ type: 'text', text: 'no such file' }] });

    expect(shown).toEqual({ isError: true, content: [{ type: 'text', text: 'no such file' }] });
  });

  test.each([
    [{ content: [{ type: 'resource', resource: { uri: 'file:///a', text: 'hello' } }] }, 'hello'],
    [{ content: [{ type: 'resource_link', uri: 'x' }] }, '{"type":"resource_link","uri":"x"}'],
    [{ structuredContent: { n: 1 } }, '{"n":1}'],
  ])('shows %j', async (result, text) => {
    expect((await show(result)).content).toEqual([{ type: 'text', text }]);
  });

  test('an error of the controller and a missing answer are observations', async () => {
    const blobs = new MemoryBlobs();
    const error = { code: -32602, message: 'line is required' };

    expect(await showReply(blobs, { error, timedOut: false, durationS: 0 }, 10)).toEqual({
      isError: true,
      content: [{ type: 'text', text: 'The tool call failed: line is required' }],
    });
    expect(await showReply(blobs, { timedOut: true, durationS: 10 }, 10)).toEqual({
      isError: true,
      content: [{ type: 'text', text: 'The tool gave no answer within 10 seconds.' }],
    });
  });
});
