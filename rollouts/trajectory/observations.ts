import { z } from 'zod';
import type { CallReply } from '../../contracts/denv';
import type { BlobRef, ContentPart } from '../../contracts/trajectory';
import type { BlobStore } from '../../stores/blobs';

/** The agent is shown at most this many bytes of an observation's text. The whole is kept in the blob store. */
const shownBytes = 32 * 1024;

export interface Shown {
  isError: boolean;
  content: ContentPart[];
  full?: BlobRef;
}

/** The content parts of MCP that a tool may answer with; an unknown one is shown as its JSON. */
const McpPart = z.union([
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.literal('image'), data: z.string(), mimeType: z.string() }),
  z.looseObject({ type: z.literal('audio'), data: z.string(), mimeType: z.string() }),
  z.looseObject({
    type: z.literal('resource'),
    resource: z.looseObject({ uri: z.string(), text: z.string().optional() }),
  }),
]);

/** Makes an observation of a controller's answer. An error of a tool is an observation like any other. */
export async function showReply(
  blobs: BlobStore,
  reply: CallReply,
  timeoutS: number,
): Promise<Shown> {
  if (reply.timedOut) {
    return showText(blobs, `The tool gave no answer within ${round(timeoutS)} seconds.`, true);
  }
  if (reply.error) {
    return showText(blobs, `The tool call failed: ${reply.error.message}`, true);
  }
  const result = reply.result ?? {};
  const isError = result.isError === true;
  const parts = Array.isArray(result.content) ? result.content : [];
  const texts: string[] = [];
  const images: ContentPart[] = [];
  for (const part of parts) {
    const parsed = McpPart.safeParse(part);
    if (!parsed.success) texts.push(JSON.stringify(part));
    else if (parsed.data.type === 'text') texts.push(parsed.data.text);
    else if (parsed.data.type === 'resource') texts.push(resourceText(parsed.data.resource));
    else {
      const { type, data, mimeType } = parsed.data;
      const bytes = Buffer.from(data, 'base64');
      const { ref } = await blobs.put(bytes);
      if (type === 'image') images.push({ type, mimeType, ref, bytes: bytes.length });
      else texts.push(`[${type}, ${mimeType}, ${bytes.length} bytes, kept as ${ref}]`);
    }
  }
  if (parts.length === 0 && result.structuredContent !== undefined) {
    texts.push(JSON.stringify(result.structuredContent));
  }
  const shown = await showText(blobs, texts.join('\n'), isError);
  return { ...shown, content: [...shown.content, ...images] };
}

/** Makes an observation of a text. Past 32 KiB the middle is dropped, with a note that says how much, and the whole is kept. */
export async function showText(blobs: BlobStore, text: string, isError: boolean): Promise<Shown> {
  if (text === '') return { isError, content: [] };
  const data = Buffer.from(text);
  if (data.length <= shownBytes) return { isError, content: [{ type: 'text', text }] };
  const full = await blobs.put(data);
  const head = wholeCharacters(data.subarray(0, (shownBytes * 3) / 4));
  const tail = wholeCharacters(data.subarray(data.length - shownBytes / 4));
  const dropped = data.length - Buffer.byteLength(head) - Buffer.byteLength(tail);
  const note = `[${dropped} of ${data.length} bytes are left out here]`;
  return { isError, content: [{ type: 'text', text: `${head}\n${note}\n${tail}` }], full };
}

/** The text of an observation, with an image as its type and ref. */
export const toText = (content: ContentPart[]): string =>
  content
    .map((part) => (part.type === 'text' ? part.text : `[${part.mimeType}, ${part.ref}]`))
    .join('\n');

function resourceText(resource: { uri: string; text?: string }): string {
  return resource.text ?? `[resource ${resource.uri}]`;
}

/** Text of a cut buffer without the halves of characters at its ends. */
function wholeCharacters(cut: Buffer): string {
  let start = 0;
  while (start < cut.length && ((cut[start] ?? 0) & 0xc0) === 0x80) start += 1;
  const text = cut.subarray(start).toString('utf8');
  return text.endsWith('�') ? text.slice(0, -1) : text;
}

const round = (seconds: number): number => Math.round(seconds * 10) / 10;
