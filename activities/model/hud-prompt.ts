import { z } from 'zod';
import { TrajectoryEntry } from '../../contracts/trajectory';
import type { ContentPart } from '../../contracts/trajectory';
import { DenvError } from '../../denv/errors';
import type { BlobStore } from '../../stores/blobs';

/** How a task begins, as it is kept behind `AgentContext.promptRef`. */
export const Opening = z.object({ entries: z.array(TrajectoryEntry) });
export type Opening = z.infer<typeof Opening>;

// One class of characters, so that megabytes of them cost no stack.
const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

const Message = z.looseObject({ role: z.string(), content: z.unknown() });

/** The blocks that a prompt may have: text, and images that bring their bytes along in base64. */
const Block = z.union([
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.literal('image'), data: z.string().regex(base64), mimeType: z.string() }),
  z.looseObject({
    type: z.literal('image_url'),
    image_url: z.looseObject({
      url: z.string().regex(/^data:[^;,]+;base64,[A-Za-z0-9+/]+={0,2}$/),
    }),
  }),
]);
type Block = z.infer<typeof Block>;

/**
 * The prompt of a start frame as entries of a trajectory: a text, or a conversation. Roles other than system, user and
 * assistant are the user's. Null where the environment gave no prompt. Images are stored.
 * @throws DenvError invalid_request, which names the message and what cannot be shown of it
 */
export async function openingOf(blobs: BlobStore, prompt: unknown): Promise<Opening | null> {
  if (prompt === null || prompt === undefined) return null;
  if (typeof prompt === 'string') return { entries: [{ type: 'prompt', text: prompt }] };
  const messages = z.array(Message).safeParse(prompt);
  if (!messages.success) {
    throw refused('it is neither a text nor a list of messages with role and content');
  }
  if (messages.data.length === 0) return null;
  const entries = messages.data.map(({ role, content }, index) =>
    entryOf(blobs, role, blocksOf(content, index), index),
  );
  return { entries: await Promise.all(entries) };
}

function blocksOf(content: unknown, index: number): Block[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  const blocks: unknown[] = Array.isArray(content) ? content : [content];
  return blocks.map((block) => {
    const parsed = Block.safeParse(block);
    if (parsed.success) return parsed.data;
    throw refused(`message ${index} has ${nameOf(block)}: text and base64 images can be shown`);
  });
}

async function entryOf(
  blobs: BlobStore,
  role: string,
  blocks: Block[],
  index: number,
): Promise<TrajectoryEntry> {
  const text = blocks.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n');
  const images = (await Promise.all(blocks.map((block) => imageOf(blobs, block)))).flat();
  if (images.length > 0 && (role === 'system' || role === 'assistant')) {
    throw refused(
      `message ${index} has an image in the role ${role}: only the user's can be shown`,
    );
  }
  if (role === 'system') return { type: 'system', text };
  return {
    type: 'prompt',
    text,
    ...(role === 'assistant' ? { role } : {}),
    ...(images.length > 0 ? { images } : {}),
  };
}

async function imageOf(blobs: BlobStore, block: Block): Promise<ContentPart[]> {
  if (block.type === 'text') return [];
  const [mimeType, base64] =
    block.type === 'image'
      ? [block.mimeType, block.data]
      : [
          /^data:([^;,]+)/.exec(block.image_url.url)?.[1] ?? '',
          block.image_url.url.slice(block.image_url.url.indexOf(',') + 1),
        ];
  const { ref, bytes } = await blobs.put(Buffer.from(base64, 'base64'));
  return [{ type: 'image', mimeType, ref, bytes }];
}

function nameOf(block: unknown): string {
  const type = z.looseObject({ type: z.string() }).safeParse(block);
  return type.success ? `a block of type ${JSON.stringify(type.data.type)}` : 'a block of no type';
}

const refused = (why: string): DenvError =>
  new DenvError('invalid_request', `the prompt of the environment cannot be used: ${why}`);
