import { HudChannel } from '../../../../denv/controllers/hud/channel';
import { LINE_LIMIT_BYTES } from '../../../../denv/controllers/lines';
import { type Peer, scriptedHud, type ScriptedHud } from './scripted-hud';

describe('HudChannel', () => {
  let server: ScriptedHud | null = null;
  afterEach(() => server?.stop());

  const open = async (script: Record<string, (peer: Peer) => void>) => {
    server = await scriptedHud(script);
    return new HudChannel(await server.connect());
  };

  it('matches replies by id, in any order, as around a cancel', async () => {
    let grade: Peer | null = null;
    const channel = await open({
      'tasks.grade': (peer) => (grade = peer),
      'tasks.cancel': (peer) => {
        peer.reply({ cancelled: true });
        grade?.fail(-32000, 'tasks.cancel interrupted the task');
      },
    });

    const graded = channel.request('tasks.grade', { answer: 1 });
    const cancelled = channel.request('tasks.cancel', {});

    expect(await graded).toEqual({
      error: { code: -32000, message: 'tasks.cancel interrupted the task' },
    });
    expect(await cancelled).toEqual({ result: { cancelled: true } });
  });

  it('reads CRLF, blank lines, and two replies in one packet', async () => {
    const peers: Peer[] = [];
    const channel = await open({
      ask: (peer) => {
        peers.push(peer);
        if (peers.length < 2) return;
        peer.say('{"id":2,"result":{"n":2}}\r\n\r\n{"id":1,"result":{"n":1}}\r\n');
      },
    });

    const answers = [channel.request('ask', {}), channel.request('ask', {})];

    expect(await Promise.all(answers)).toEqual([{ result: { n: 1 } }, { result: { n: 2 } }]);
  });

  it('carries frames up to the limit both ways', async () => {
    const overhead = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ask', params: { s: '' } });
    const channel = await open({ ask: (peer) => peer.reply({ s: 'é'.repeat(8_388_580) }) });

    const sent = 'x'.repeat(LINE_LIMIT_BYTES - overhead.length);
    const reply = await channel.request('ask', { s: sent });

    expect(server?.frames[0]?.params['s']).toHaveLength(sent.length);
    expect('result' in reply && reply.result['s'] === 'é'.repeat(8_388_580)).toBe(true);
  }, 60_000);

  it('sends no frame past the limit, and goes on', async () => {
    const channel = await open({ ask: (peer) => peer.reply({}) });
    const marks: string[] = [];
    const hooks = { sending: () => marks.push('sending'), sent: () => marks.push('sent') };

    await expect(
      channel.request('ask', { s: 'x'.repeat(LINE_LIMIT_BYTES) }, hooks),
    ).rejects.toMatchObject({ kind: 'protocol', sent: false });
    expect(marks).toEqual([]);
    expect(await channel.request('ask', {}, hooks)).toEqual({ result: {} });
    expect(marks).toEqual(['sending', 'sent']);
  });

  it.each<[string, (peer: Peer) => void, string]>([
    [
      'an error to no id',
      (peer) => peer.say({ id: null, error: { code: -32000, message: 'too large' } }),
      'a reply to no request of ours: too large',
    ],
    ['an unknown id', (peer) => peer.say({ id: 99, result: {} }), 'a reply to no request of ours'],
    ['an id as text', (peer) => peer.say({ id: '1', result: {} }), 'a reply to no request of ours'],
    ['no JSON', (peer) => peer.say('HTTP/1.1 400\n'), 'a line that is no JSON: "HTTP/1.1 400"'],
    ['no object', (peer) => peer.say([1]), 'no JSON object: "[1]"'],
    ['no reply', (peer) => peer.say({ id: 1 }), 'no JSON-RPC reply: "{\\"id\\":1}"'],
    [
      'a frame past the limit',
      (peer) => peer.say(Buffer.alloc(LINE_LIMIT_BYTES + 100, 'x')),
      'a line of more than 16777216 bytes',
    ],
  ])('fails every request and ends at %s', async (_, act, message) => {
    const channel = await open({ wait: () => undefined, ask: act });

    const waiting = channel.request('wait', {});
    const asked = channel.request('ask', {});

    const failure = { kind: 'protocol', message: `the environment sent ${message}`, sent: true };
    await expect(asked).rejects.toMatchObject(failure);
    await expect(waiting).rejects.toMatchObject(failure);
    expect(channel.open).toBe(false);
    await expect(channel.request('ask', {})).rejects.toMatchObject({ sent: false });
  });

  it('loses what is out when the connection ends, and sends nothing after', async () => {
    const channel = await open({ ask: (peer) => peer.socket.end() });

    await expect(channel.request('ask', {})).rejects.toMatchObject({
      kind: 'lost',
      message: 'the environment closed the control connection',
      sent: true,
    });
    await expect(channel.request('ask', {})).rejects.toMatchObject({ kind: 'lost', sent: false });
  });

  it('keeps numbers that JSON cannot say', async () => {
    const channel = await open({
      ask: (peer) =>
        peer.say(`{"id":${peer.frame.id},"result":{"loss":NaN,"big":1152921504606846976}}\n`),
    });

    expect(await channel.request('ask', {})).toEqual({
      result: { loss: { $number: 'NaN' }, big: { $number: '1152921504606846976' } },
    });
  });
});
