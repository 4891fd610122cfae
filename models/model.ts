import type { ModelChoice } from '../contracts/rollout';
import type { ModelReply, ToolCall } from '../contracts/trajectory';

/** A part of a message, as all providers can be told it. */
export type ModelPart =
  { type: 'text'; text: string } | { type: 'image'; mimeType: string; base64: string };

/**
 * The parts of an earlier reply that its provider must be sent again unchanged: signed thoughts with the calls between them.
 * Another provider is never sent them.
 */
export type HandBack = NonNullable<ModelReply['handBack']>;

export type ModelMessage =
  | { role: 'system'; text: string }
  | { role: 'user'; parts: ModelPart[] }
  | { role: 'assistant'; text: string; toolCalls: ToolCall[]; handBack?: HandBack }
  | { role: 'tool'; toolCallId: string; name: string; isError: boolean; parts: ModelPart[] };

export interface ToolSpec {
  name: string;
  description: string;
  /** JSON Schema of the arguments, as the controller gave it. */
  inputSchema: Record<string, unknown>;
}

export interface ModelRequest {
  /** Names the call, the same for every try at it. */
  key: string;
  model: ModelChoice;
  messages: ModelMessage[];
  tools: ToolSpec[];
  /** Wall-clock seconds for one answer. */
  timeoutS: number;
}

/**
 * Completes a prompt: one HTTP request, no retries of its own.
 * @throws ModelError
 */
export interface ModelClient {
  complete(request: ModelRequest, options: { signal: AbortSignal }): Promise<ModelReply>;
}

export type ModelErrorKind =
  /** No connection, no answer in time, a 5xx, or an answer that is not of the protocol. */
  | 'ModelUnavailable'
  | 'ModelRateLimited'
  /** The model, or its provider's policy, will not answer this prompt. */
  | 'ModelRefused'
  | 'ContextOverflow'
  /** The endpoint says that the request is wrong, or the model is not known here. */
  | 'ModelRequestInvalid'
  | 'ModelUnauthorized';

export class ModelError extends Error {
  override readonly name = 'ModelError';
  readonly code: ModelErrorKind;
  /** Seconds after which to ask again, where the endpoint said so. */
  readonly retryAfterS: number | undefined;
  /** False where the request may still be worked on, as after a timeout. */
  readonly answered: boolean;

  constructor(
    code: ModelErrorKind,
    message: string,
    options: { cause?: unknown; retryAfterS?: number; answered?: boolean } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryAfterS = options.retryAfterS;
    this.answered = options.answered ?? true;
  }
}
