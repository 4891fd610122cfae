import { createDenvClient } from '../../denv/client';

const sandbox = {
  id: 'sb_1',
  state: 'running',
  ports: {},
  version: 'ver_1',
  reproducible: false,
  forkedFrom: null,
  labels: {},
  createdAt: '2026-01-01T00:00:00.000Z',
  leaseUntil: '2026-01-01T00:00:00.000Z',
  controller: { kind: 'shell', ready: true },
  stopped: null,
};
const reply = {
  exitCode: 0,
  stdout: '',
  stderr: '',
  truncated: false,
  timedOut: false,
  durationS: 0.1,
};

function clientOf(...answers: (() => Response)[]) {
  const requests: { method: string; url: string; key: string | null; body: string }[] = [];
  const client = createDenvClient({
    server: 'http://denv.test/',
    apiKey: 'dak_1',
    fetch: async (request) => {
      requests.push({
        method: request.method,
        url: request.url,
        key: request.headers.get('idempotency-key'),
        body: await request.text(),
      });
      const next = answers.shift();
      if (!next) throw new Error('no answer is left');
      return next();
    },
  });
  return { client, requests };
}

const exec = (client: ReturnType<typeof clientOf>['client']) =>
  client.exec('sb_1', { argv: ['true'] }, { key: 'k/1' });

describe('createDenvClient', () => {
  it('sends the key, and polls the operation of a request that is not done yet', async () => {
    const { client, requests } = clientOf(
      () => Response.json({ key: 'k/1', state: 'running' }, { status: 202 }),
      () => Response.json({ key: 'k/1', kind: 'exec', state: 'running' }),
      () => Response.json({ key: 'k/1', kind: 'exec', state: 'done', status: 200, body: reply }),
    );

    expect(await exec(client)).toEqual(reply);
    expect(requests.map((r) => `${r.method} ${r.url}`)).toEqual([
      'POST http://denv.test/v1/envs/sb_1/exec',
      'GET http://denv.test/v1/operations/k%2F1?wait=30',
      'GET http://denv.test/v1/operations/k%2F1?wait=30',
    ]);
    expect(requests[0]?.key).toBe('k/1');
  });

  it('throws the error that an operation ended with', async () => {
    const { client } = clientOf(
      () => Response.json({ key: 'k/1', state: 'running' }, { status: 202 }),
      () =>
        Response.json({
          key: 'k/1',
          kind: 'exec',
          state: 'done',
          status: 409,
          body: { error: { code: 'outcome_unknown', message: 'm', details: { version: 'ver_9' } } },
        }),
    );

    await expect(exec(client)).rejects.toMatchObject({
      code: 'outcome_unknown',
      details: { version: 'ver_9' },
    });
  });

  it.each([
    [401, '', 'unauthorized'],
    [429, 'slow', 'rate_limited'],
    [408, '', 'unavailable'],
    [502, '<html>bad gateway</html>', 'unavailable'],
  ])('judges %d without an error body by its status', async (status, body, code) => {
    const { client } = clientOf(() => new Response(body, { status }));

    await expect(exec(client)).rejects.toMatchObject({ code });
  });

  it('tells how long a server asks to wait', async () => {
    const body = { error: { code: 'rate_limited', message: 'slow down' } };
    const { client } = clientOf(() =>
      Response.json(body, { status: 429, headers: { 'retry-after': '7' } }),
    );

    await expect(exec(client)).rejects.toMatchObject({ code: 'rate_limited', retryAfterS: 7 });
  });

  it('says what was tried when nobody answers', async () => {
    const { client } = clientOf(() => {
      throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') });
    });

    await expect(exec(client)).rejects.toThrow(
      'no answer from POST /v1/envs/sb_1/exec at http://denv.test: connect ECONNREFUSED',
    );
  });

  it('refuses a reply that is not of the contract', async () => {
    const { client } = clientOf(() => Response.json({ ...sandbox, state: 'asleep' }));

    await expect(client.getSandbox('sb_1')).rejects.toThrow(/is not of the contract.*state/s);
  });

  it('lets go when its signal says so, and leaves the operation alone', async () => {
    const abort = new AbortController();
    const { client, requests } = clientOf(
      () => Response.json({ key: 'k', state: 'running' }, { status: 202 }),
      () => {
        abort.abort(new Error('let go'));
        throw new TypeError('fetch failed');
      },
    );

    await expect(
      client.exec('sb_1', { argv: ['true'] }, { key: 'k', signal: abort.signal }),
    ).rejects.toThrow('let go');
    expect(requests.map((r) => r.method)).toEqual(['POST', 'GET']);
  });
});
