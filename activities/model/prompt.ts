import type { ContentPart, TrajectoryEntry } from '../../contracts/trajectory';
import type { ModelMessage, ModelPart } from '../../models/model';
import type { BlobStore } from '../../stores/blobs';

/** A trajectory as the model is shown it; images are read from the blob store. */
export function messagesOf(blobs: BlobStore, entries: TrajectoryEntry[]): Promise<ModelMessage[]> {
  const messages = entries.map((entry) => messageOf(blobs, entry));
  return Promise.all(messages).then((all) => all.filter((message) => message !== null));
}

async function messageOf(blobs: BlobStore, entry: TrajectoryEntry): Promise<ModelMessage | null> {
  switch (entry.type) {
    case 'system':
      return { role: 'system', text: entry.text };
    case 'prompt': {
      if (entry.role === 'assistant') return { role: 'assistant', text: entry.text, toolCalls: [] };
      const images = await Promise.all((entry.images ?? []).map((part) => partOf(blobs, part)));
      const text: ModelPart[] =
        entry.text === '' && images.length > 0 ? [] : [{ type: 'text', text: entry.text }];
      return { role: 'user', parts: [...text, ...images] };
    }
    case 'person':
      return { role: 'user', parts: [{ type: 'text', text: entry.text }] };
    case 'reply': {
      const { text, toolCalls, handBack } = entry.reply;
      return { role: 'assistant', text, toolCalls, ...(handBack ? { handBack } : {}) };
    }
    case 'observation': {
      const { toolCallId, name, isError, content } = entry.observation;
      const parts = await Promise.all(content.map((part) => partOf(blobs, part)));
      return { role: 'tool', toolCallId, name, isError, parts };
    }
    // The world was put back to before the step, so for the agent nothing happened.
    case 'restored':
      return null;
  }
}

async function partOf(blobs: BlobStore, part: ContentPart): Promise<ModelPart> {
  if (part.type === 'text') return part;
  const data = await blobs.get(part.ref);
  return { type: 'image', mimeType: part.mimeType, base64: data.toString('base64') };
}
