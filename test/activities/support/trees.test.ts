import { text } from 'node:stream/consumers';
import { sendTrees } from '../../../activities/support/trees';
import type { FileTree } from '../../../contracts/denv';
import { DenvError } from '../../../denv/errors';
import { MemoryBlobs } from '../../fakes/memory-blobs';

async function scene(errors: Error[]) {
  const blobs = new MemoryBlobs();
  const app = await blobs.put(Buffer.from('tar of app'));
  const data = await blobs.put(Buffer.from('tar of data'));
  const files = [
    { to: '/app', ...app },
    { to: '/data', ...data },
    { to: '/copy', ...data },
  ];
  const sent: (FileTree[] | undefined)[] = [];
  const uploaded: string[][] = [];
  const denv = {
    uploadTree: async (sha256: string, tar: AsyncIterable<Uint8Array>) => {
      uploaded.push([`sha256:${sha256}`, await text(tar)]);
    },
  };
  const send = (trees: { files?: FileTree[] }) => {
    sent.push(trees.files);
    const error = errors.shift();
    return error ? Promise.reject(error) : Promise.resolve('done');
  };
  const parts = { denv, blobs, signal: new AbortController().signal };
  const digest = ({ ref }: { ref: string }) => ref.replace('sha256:', '');
  const byDigest = files.map(({ to, ref }) => ({ to, sha256: digest({ ref }) }));
  return { parts, files, send, sent, uploaded, byDigest, data, sha256: digest(data) };
}

const missing = (...sha256: string[]) =>
  new DenvError('files_missing', 'missing', { details: { sha256 } });

describe('sendTrees', () => {
  it('sends digests alone to a server that holds the trees', async () => {
    const { parts, files, send, sent, uploaded, byDigest } = await scene([]);

    expect(await sendTrees(parts, files, send)).toBe('done');
    expect(sent).toEqual([byDigest]);
    expect(uploaded).toEqual([]);
  });

  it('uploads what the server lacks, once each, and asks again by digest', async () => {
    const errors: Error[] = [];
    const { parts, files, send, sent, uploaded, byDigest, data, sha256 } = await scene(errors);
    errors.push(missing(sha256, sha256));

    expect(await sendTrees(parts, files, send)).toBe('done');
    expect(uploaded).toEqual([[data.ref, 'tar of data']]);
    expect(sent).toEqual([byDigest, byDigest]);
  });

  it('uploads all of them to a server that names none', async () => {
    const { parts, files, send, uploaded } = await scene([
      new DenvError('files_missing', 'missing'),
    ]);

    await sendTrees(parts, files, send);

    expect(uploaded.map(([, tar]) => tar)).toEqual(['tar of app', 'tar of data']);
  });

  it('passes any other error on, and sends nothing again', async () => {
    const { parts, files, send, sent } = await scene([new DenvError('disk_full', 'full')]);

    await expect(sendTrees(parts, files, send)).rejects.toMatchObject({ code: 'disk_full' });
    expect(sent).toHaveLength(1);
  });

  it('asks for no files where a task has none', async () => {
    const { parts, send, sent } = await scene([]);

    await sendTrees(parts, [], send);

    expect(sent).toEqual([undefined]);
  });
});
