import { setTimeout as sleep } from 'node:timers/promises';
import type { ModelReply, ToolCall } from '../../contracts/trajectory';
import type { ModelClient, ModelRequest } from '../../models/model';

export type Say =
  | Partial<ModelReply>
  | Error
  /** Never answers, until it is let go of. */
  | 'hang';

/** Tool calls by name and arguments; ids are made up. */
export const calls = (...list: [name: string, args: Record<string, unknown> | null][]): Say => ({
  toolCalls: list.map(([name, args], index): ToolCall => ({
    id: `call_${index}`,
    name,
    arguments: args,
    ...(args === null ? { rawArguments: '{"line": ' } : {}),
  })),
  finishReason: 'tool_calls',
});

/** A model that says what a test tells it to, by the number of replies already in the transcript. Fails when it runs out. */
export class FakeModel implements ModelClient {
  readonly requests: ModelRequest[] = [];
  readonly #say: (request: ModelRequest, turn: number) => Say | undefined;

  constructor(say: Say[] | ((request: ModelRequest, turn: number) => Say | undefined)) {
    this.#say = typeof say === 'function' ? say : (_request, turn) => say[turn];
  }

  async complete(request: ModelRequest, { signal }: { signal: AbortSignal }): Promise<ModelReply> {
    this.requests.push(request);
    const turn = request.messages.filter(({ role }) => role === 'assistant').length;
    const say = this.#say(request, turn);
    if (say === undefined) throw new Error(`the fake model has nothing to say at turn ${turn}`);
    if (say instanceof Error) throw say;
    if (say === 'hang') {
      await sleep(2 ** 30, undefined, { signal });
      throw new Error('unreachable');
    }
    return {
      text: '',
      toolCalls: [],
      finishReason: 'stop',
      usage: { promptTokens: 10, completionTokens: 5, costUsd: null },
      durationS: 1,
      model: 'fake',
      ...say,
    };
  }
}
