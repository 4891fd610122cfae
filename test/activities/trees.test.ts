import { sendTrees } from '../../activities/trees';
import type { FileTree } from '../../contracts/denv';
import { DenvError } from '../../denv/errors';
import type { BlobStore } from '../../stores/blobs';

const blobs = { get: (ref: string) => Promise.resolve(Buffer.from(`tar of ${ref}`)) } as BlobStore;
const files = [{ to: '/app', ref: 'sha256:aa', bytes: 3 }];

function server(errors: Error[]) {
  const sent: (FileTree[] | undefined)[] = [];
  const send = (trees: { files?: FileTree[] }) => {
    sent.push(trees.files);
    const error = errors.shift();
    return error ? Promise.reject(error) : Promise.resolve('done');
  };
  return { sent, send };
}

describe('sendTrees', () => {
  it('sends digests alone to a server that holds the trees', async () => {
    const { sent, send } = server([]);

    expect(await sendTrees(blobs, files, send)).toBe('done');
    expect(sent).toEqual([[{ to: '/app', sha256: 'aa' }]]);
  });

  it('sends the tars to a server that does not', async () => {
    const { sent, send } = server([new DenvError('files_missing', 'missing')]);

    expect(await sendTrees(blobs, files, send)).toBe('done');
    expect(sent[1]).toEqual([
      { to: '/app', tarBase64: Buffer.from('tar of sha256:aa').toString('base64') },
    ]);
  });

  it('passes any other error on, and sends nothing again', async () => {
    const { sent, send } = server([new DenvError('disk_full', 'full')]);

    await expect(sendTrees(blobs, files, send)).rejects.toMatchObject({ code: 'disk_full' });
    expect(sent).toHaveLength(1);
  });

  it('asks for no files where a task has none', async () => {
    const { sent, send } = server([]);

    await sendTrees(blobs, [], send);

    expect(sent).toEqual([undefined]);
  });
});
