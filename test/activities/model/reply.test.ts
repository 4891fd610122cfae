import { replyName, sha256 } from '../../../rollouts/documents';
import { ModelReply } from '../../../contracts/trajectory';
import { ModelError } from '../../../models/model';
import { calls } from '../../fakes/fake-model';
import { activitiesOnFakes, run } from '../on-fakes';
import type { ActivitiesOnFakes } from '../on-fakes';

const key = 'rollout/b/t/0/1/step/1/model';

async function input(bench: ActivitiesOnFakes, more: object = {}) {
  const taskRef = await bench.put(bench.packed());
  const agentRef = await bench.put({
    taskRef,
    model: { name: 'm', settings: { systemPrompt: 'Be brief.' }, price: null },
    tools: [
      { name: 'look', inputSchema: {}, annotations: { readOnlyHint: true } },
      { name: 'write', inputSchema: {} },
    ],
  });
  return {
    key,
    step: 1,
    agentRef,
    head: '',
    pending: [],
    timeoutS: 5,
    waitS: 60,
    sandboxId: 'sb_1',
    leaseS: 300,
    ...more,
  };
}

const asks = (bench: ActivitiesOnFakes) =>
  [...bench.blobs.named.keys()].filter((name) => name.startsWith('asks/'));

describe('callModel', () => {
  test('opens with system prompt and task, and records the reply under its key', async () => {
    const bench = activitiesOnFakes([{ text: 'done' }]);

    const turn = await run(bench.activities.callModel, await input(bench));

    expect(turn).toEqual({
      head: expect.stringMatching(/^sha256:/),
      tools: [],
      finishReason: 'stop',
      tokens: [10, 5],
      costUsd: null,
      durationS: 1,
    });
    expect(bench.model.requests[0]?.messages).toEqual([
      { role: 'system', text: 'Be brief.' },
      { role: 'user', parts: [{ type: 'text', text: 'Mend it.' }] },
    ]);
    const kept = bench.blobs.named.get(replyName(key));
    expect(ModelReply.parse(JSON.parse(String(kept)))).toMatchObject({ text: 'done' });
  });

  test('opens with what a HUD environment gave, after the system prompt', async () => {
    const bench = activitiesOnFakes([{ text: 'done' }]);
    const given = await input(bench);
    const { ref } = await bench.blobs.put(Buffer.from([1, 2]));
    const image = { type: 'image', mimeType: 'image/png', ref, bytes: 2 };
    const promptRef = await bench.put({
      entries: [{ type: 'prompt', text: '', images: [image] }],
    });
    const context = JSON.parse(String(await bench.blobs.get(given.agentRef))) as object;
    const agentRef = await bench.put({ ...context, promptRef });

    await run(bench.activities.callModel, { ...given, agentRef });

    expect(bench.model.requests[0]?.messages).toEqual([
      { role: 'system', text: 'Be brief.' },
      { role: 'user', parts: [{ type: 'image', mimeType: 'image/png', base64: 'AQI=' }] },
    ]);
  });

  test('lets go of the model when the run is over, for good', async () => {
    const bench = activitiesOnFakes(['hang']);
    const given = await input(bench, { runEndsAtMs: Date.now() + 50 });

    await expect(run(bench.activities.callModel, given)).rejects.toMatchObject({
      type: 'RunTimeout',
      nonRetryable: true,
    });
  });

  test('a recorded reply counts, even when the run is over by now', async () => {
    const bench = activitiesOnFakes([{ text: 'done' }]);
    const given = await input(bench);
    await run(bench.activities.callModel, given);

    const turn = await run(bench.activities.callModel, { ...given, runEndsAtMs: 1 }, 2);

    expect(turn).toMatchObject({ finishReason: 'stop' });
  });

  test('never asks again for a recorded reply: another worker gives the same answer', async () => {
    const bench = activitiesOnFakes([{ text: 'done' }]);
    const first = await run(bench.activities.callModel, await input(bench));

    const second = await run(bench.otherWorker().callModel, await input(bench), 2);

    expect(second).toEqual(first);
    expect(bench.model.requests).toHaveLength(1);
  });

  test('the loser of a race takes the winner’s reply', async () => {
    const bench = activitiesOnFakes([{ text: 'late' }]);
    const complete = bench.model.complete.bind(bench.model);
    bench.model.complete = async (request, options) => {
      const reply = await complete(request, options);
      const winner = { ...reply, toolCalls: [{ id: '1', name: 'write', arguments: {} }] };
      await bench.blobs.putIfAbsent(replyName(key), Buffer.from(JSON.stringify(winner)));
      return reply;
    };

    const turn = await run(bench.activities.callModel, await input(bench));

    expect(turn).toMatchObject({ tools: ['write'] });
  });

  test('counts the asks of killed workers, and not those that got an error for an answer', async () => {
    const bench = activitiesOnFakes([new ModelError('ModelUnavailable', '503')]);
    const given = await input(bench);
    await expect(run(bench.activities.callModel, given)).rejects.toMatchObject({
      type: 'ModelUnavailable',
    });
    await bench.blobs.putIfAbsent(`asks/${sha256(key)}/2-killed`, Buffer.from('{}'));
    const other = activitiesOnFakes([{ text: 'done' }]);
    bench.model.complete = other.model.complete.bind(other.model);

    const turn = await run(bench.activities.callModel, given, 3);

    expect(turn.reissued).toBe(1);
    expect(asks(bench)).toHaveLength(4);
  });

  test('marks its ask before the request goes out', async () => {
    const bench = activitiesOnFakes();
    let marked = 0;
    bench.model.complete = () => {
      marked = asks(bench).length;
      throw new ModelError('ModelUnavailable', 'no answer in time', { answered: false });
    };

    await expect(run(bench.activities.callModel, await input(bench))).rejects.toBeDefined();

    expect(marked).toBe(1);
    expect(asks(bench)).toHaveLength(1);
  });

  test('shows what is pending, in its order, and images with their bytes', async () => {
    const bench = activitiesOnFakes([calls(['look', {}]), { text: 'done' }]);
    const first = await run(bench.activities.callModel, await input(bench));
    const { ref: image } = await bench.blobs.put(Buffer.from('png'));
    const observation = {
      toolCallId: 'call_0',
      name: 'look',
      isError: false,
      durationS: 1,
      content: [{ type: 'image', mimeType: 'image/png', ref: image, bytes: 3 }],
    };
    const pending = [
      { type: 'reply', step: 1, modelKey: key },
      { type: 'restored', step: 1, version: 'ver_1', why: 'lost' },
      { type: 'kept', ref: await bench.put({ type: 'observation', step: 1, observation }) },
      { type: 'person', step: 2, text: 'hurry' },
    ];

    await run(
      bench.activities.callModel,
      await input(bench, { key: `${key}2`, step: 2, head: first.head, pending }),
    );

    expect(bench.model.requests[1]?.messages.slice(2)).toEqual([
      { role: 'assistant', text: '', toolCalls: [{ id: 'call_0', name: 'look', arguments: {} }] },
      {
        role: 'tool',
        toolCallId: 'call_0',
        name: 'look',
        isError: false,
        parts: [{ type: 'image', mimeType: 'image/png', base64: 'cG5n' }],
      },
      { role: 'user', parts: [{ type: 'text', text: 'hurry' }] },
    ]);
  });

  test('calls past the most that are made are answered as not made', async () => {
    const many = calls(
      ...Array.from({ length: 130 }, () => ['look', {}] as [string, Record<string, unknown>]),
    );
    const bench = activitiesOnFakes([many]);
    const turn = await run(bench.activities.callModel, await input(bench));

    const skipped = {
      type: 'skipped' as const,
      step: 1,
      modelKey: key,
      from: 128,
      why: 'too many',
    };
    const reply = { type: 'reply' as const, step: 1, modelKey: key };
    await run(bench.activities.appendTrajectory, { head: turn.head, pending: [reply, skipped] });

    expect(turn).toMatchObject({ surplus: 2 });
    expect(turn.tools).toHaveLength(128);
    const nodes = [...bench.blobs.content.values()].map(String);
    expect(nodes.filter((text) => text.includes('This call was not made: too many'))).toHaveLength(
      1,
    );
  });
});
