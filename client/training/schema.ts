import { z } from 'zod';
import { ContentPart, ToolCall } from '../../contracts/trajectory';

/**
 * The lines of a training file. A conversation is the path from a node without parent to the node of a leaf, so the beginning
 * that several rollouts share is written once. A node comes after its parent, a leaf after its node.
 */

export const TrainingMessage = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('system'), content: z.string() }),
  z.strictObject({ role: z.literal('user'), content: z.array(ContentPart) }),
  z.strictObject({
    role: z.literal('assistant'),
    content: z.string(),
    toolCalls: z.array(ToolCall),
  }),
  z.strictObject({
    role: z.literal('tool'),
    toolCallId: z.string(),
    name: z.string(),
    isError: z.boolean(),
    content: z.array(ContentPart),
  }),
]);
export type TrainingMessage = z.infer<typeof TrainingMessage>;

/** Token ids as the endpoint gave them. Only those of an answer are the model's own; log-probabilities belong to them. */
export const TokenSegment = z.strictObject({
  of: z.enum(['prompt', 'answer']),
  ids: z.array(z.number().int()),
  logprobs: z.array(z.number()).optional(),
  /** The ids do not continue those before, and this is the whole prompt: nothing before it belongs to the sequence. */
  restarts: z.literal(true).optional(),
});
export type TokenSegment = z.infer<typeof TokenSegment>;

const estimate = {
  /** Number of leaves below, those without a reward included. */
  visits: z.number().int(),
  /** Mean reward of the scored leaves below. */
  value: z.number().nullable(),
  /** The value less the mean of the values of all nodes with this parent; 0 for one alone. */
  advantage: z.number().nullable(),
};

export const TrainingNode = z.strictObject({
  node: z.string(),
  parent: z.string().nullable(),
  taskId: z.string(),
  /** Step of the reply that the node begins with; null for the opening of a task. */
  step: z.number().int().nullable(),
  model: z.string().nullable(),
  ...estimate,
  messages: z.array(TrainingMessage),
  /** Left out where the endpoint gave none. */
  tokens: z.array(TokenSegment).optional(),
});
export type TrainingNode = z.infer<typeof TrainingNode>;

export const TrainingLeaf = z.strictObject({
  /** Id of the rollout. */
  leaf: z.string(),
  /** Null where there was no step. */
  node: z.string().nullable(),
  taskId: z.string(),
  reward: z.number().nullable(),
  rewards: z.record(z.string(), z.number()),
  stopReason: z.string().nullable(),
  /** The rollout and the step that this one was forked from. */
  from: z.strictObject({ leaf: z.string(), step: z.number().int() }).nullable(),
  /** `whole`: the ids of its path are one sequence; `broken`: they restart on the way, or some replies have none. */
  tokenIds: z.enum(['whole', 'broken', 'none']),
});
export type TrainingLeaf = z.infer<typeof TrainingLeaf>;

export const TrainingLine = z.union([TrainingNode, TrainingLeaf]);
export type TrainingLine = z.infer<typeof TrainingLine>;

/** A leaf with its whole conversation. */
export interface Conversation {
  leaf: TrainingLeaf;
  nodes: TrainingNode[];
  messages: TrainingMessage[];
  /** The ids of its sequence, from the last restart on. */
  tokens: TokenSegment[];
}

/**
 * Reads a training file back.
 * @throws ZodError, SyntaxError, or Error when a node or leaf names one that did not come before it
 */
export function parseConversations(jsonl: string): Conversation[] {
  const nodes = new Map<string, TrainingNode>();
  const known = (id: string): TrainingNode => {
    const node = nodes.get(id);
    if (!node) throw new Error(`node ${id} is named before it comes`);
    return node;
  };
  const conversations: Conversation[] = [];
  for (const text of jsonl.split('\n').filter((line) => line !== '')) {
    const line = TrainingLine.parse(JSON.parse(text));
    if ('leaf' in line) {
      conversations.push(toConversation(line, known));
      continue;
    }
    if (line.parent !== null) known(line.parent);
    nodes.set(line.node, line);
  }
  return conversations;
}

function toConversation(leaf: TrainingLeaf, known: (id: string) => TrainingNode): Conversation {
  const nodes: TrainingNode[] = [];
  for (let id = leaf.node; id !== null;) {
    const node = known(id);
    nodes.unshift(node);
    id = node.parent;
  }
  const segments = nodes.flatMap(({ tokens }) => tokens ?? []);
  const start = segments.findLastIndex(({ restarts }) => restarts === true);
  return {
    leaf,
    nodes,
    messages: nodes.flatMap(({ messages }) => messages),
    tokens: segments.slice(Math.max(0, start)),
  };
}
