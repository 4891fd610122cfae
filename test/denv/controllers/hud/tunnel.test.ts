import type { Socket } from 'node:net';
import { openTunnel } from '../../../../denv/controllers/hud/tunnel';
import { type Peer, scriptedHud, type ScriptedHud } from './scripted-hud';

describe('openTunnel', () => {
  let server: ScriptedHud | null = null;
  afterEach(() => server?.stop());

  const open = async (act: (peer: Peer) => void) => {
    server = await scriptedHud({ 'tunnel.open': act });
    return openTunnel(server.connect, 'tools');
  };

  it('asks for the capability and gives what came behind the reply line to the stream', async () => {
    const stream = await open((peer) => {
      peer.socket.end(`{"id":${peer.frame.id},"result":{"capability":"tools"}}\nfirst\nsecond`);
    });

    expect(await textOf(stream)).toBe('first\nsecond');
    expect(server?.frames).toMatchObject([
      { method: 'tunnel.open', params: { capability: 'tools' } },
    ]);
    stream.destroy();
  });

  it('reads a reply line that comes in pieces', async () => {
    const stream = await open((peer) => {
      const line = Buffer.from(`{"id":1,"result":{"capability":"é"}}\n`);
      peer.socket.write(line.subarray(0, 32));
      setImmediate(() => peer.socket.end(Buffer.concat([line.subarray(32), Buffer.from('rest')])));
    });

    expect(await textOf(stream)).toBe('rest');
    stream.destroy();
  });

  it('ends its own side and still reads, and the other way round', async () => {
    const answering = await open((peer) => {
      peer.reply({ capability: 'tools' });
      void textOf(peer.socket).then((asked) => peer.socket.end(`you said ${asked}`));
    });
    answering.end('hello');
    expect(await textOf(answering)).toBe('you said hello');
    await server?.stop();

    const said = Promise.withResolvers<string>();
    const asking = await open((peer) => {
      peer.reply({ capability: 'tools' });
      peer.socket.end('nothing more from here');
      void textOf(peer.socket).then(said.resolve);
    });
    expect(await textOf(asking)).toBe('nothing more from here');
    asking.end('but from here');
    expect(await said.promise).toBe('but from here');
  });

  it.each<[string, (peer: Peer) => void, string]>([
    ['a refusal', (peer) => peer.fail(-32000, 'unknown'), 'capability tools: unknown'],
    ['an end', (peer) => peer.socket.end(), 'capability tools: closed before it answered'],
    [
      'something else',
      (peer) => peer.say('SSH-2.0\n'),
      'capability tools: a line that is no JSON: "SSH-2.0"',
    ],
  ])('is refused by %s', async (_, act, message) => {
    await expect(open(act)).rejects.toMatchObject({ name: 'TunnelRefused', message });
  });
});

async function textOf(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
  await new Promise((ended) => socket.once('end', ended));
  return text;
}
