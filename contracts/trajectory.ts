import { z } from 'zod';

/** Something kept in the blob store. `ref` is `sha256:<hex>` of its bytes. */
export const BlobRef = z.object({ ref: z.string(), bytes: z.number() });
export type BlobRef = z.infer<typeof BlobRef>;

export const ContentPart = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  /** The bytes are a blob of their own. */
  z.object({ type: z.literal('image'), mimeType: z.string(), ref: z.string(), bytes: z.number() }),
]);
export type ContentPart = z.infer<typeof ContentPart>;

export const ToolCall = z.object({
  id: z.string(),
  name: z.string(),
  /** As the model wrote it. Null when it was not JSON or not an object; `rawArguments` then has what it wrote. */
  arguments: z.record(z.string(), z.unknown()).nullable(),
  rawArguments: z.string().optional(),
});
export type ToolCall = z.infer<typeof ToolCall>;

export const Usage = z.object({
  promptTokens: z.number(),
  completionTokens: z.number(),
  costUsd: z.number().nullable(),
});
export type Usage = z.infer<typeof Usage>;

/** A model's answer, as kept under `replies/<sha256(key)>`. */
export const ModelReply = z.object({
  text: z.string(),
  toolCalls: z.array(ToolCall),
  finishReason: z.enum(['stop', 'tool_calls', 'length', 'refused']),
  usage: Usage,
  /** Seconds the endpoint took for the answer that counts; waits and lost tries not included. */
  durationS: z.number(),
  model: z.string(),
  /** Content of the answer, as it came, that its provider wants to see again: signed thinking. */
  handBack: z
    .object({ provider: z.enum(['anthropic', 'google']), content: z.array(z.unknown()) })
    .optional(),
  /** As the endpoint returned them: of the whole prompt, and of the answer. */
  promptTokenIds: z.array(z.number()).optional(),
  tokenIds: z.array(z.number()).optional(),
  logprobs: z.array(z.number()).optional(),
});
export type ModelReply = z.infer<typeof ModelReply>;

export const Observation = z.object({
  toolCallId: z.string(),
  name: z.string(),
  isError: z.boolean(),
  content: z.array(ContentPart),
  /** The whole output, where `content` was cut. */
  full: BlobRef.optional(),
  durationS: z.number(),
});
export type Observation = z.infer<typeof Observation>;

/** One entry of a trajectory. `person` is a message that somebody sent to the running rollout. */
export const TrajectoryEntry = z.discriminatedUnion('type', [
  z.object({ type: z.literal('system'), text: z.string() }),
  /** A task may begin with a conversation: `role` is whose words these are, the user's when left out. */
  z.object({
    type: z.literal('prompt'),
    text: z.string(),
    role: z.enum(['user', 'assistant']).optional(),
    /** Shown after the text. */
    images: z.array(ContentPart).optional(),
  }),
  z.object({ type: z.literal('person'), step: z.number(), text: z.string() }),
  z.object({ type: z.literal('reply'), step: z.number(), reply: ModelReply }),
  z.object({
    type: z.literal('observation'),
    step: z.number(),
    observation: Observation,
    /** Version taken before this step's first call. */
    version: z.string().optional(),
  }),
  /** A world rolled back to a version taken before the step, since the outcome of a call was unknown. */
  z.object({ type: z.literal('restored'), step: z.number(), version: z.string(), why: z.string() }),
]);
export type TrajectoryEntry = z.infer<typeof TrajectoryEntry>;

/** A link of the trajectory's chain in the blob store: the head is carried, the rest is reached by `prev`. */
export const TrajectoryNode = z.object({
  prev: z.string().nullable(),
  entries: z.array(TrajectoryEntry),
});
export type TrajectoryNode = z.infer<typeof TrajectoryNode>;
