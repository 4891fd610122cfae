import { readFileSync } from 'node:fs';
import { parse, YAMLParseError } from 'yaml';
import { z } from 'zod';

/**
 * What the scripted model says. An entry speaks for the conversations whose first user message contains `when`; its n-th
 * reply answers a request that holds n assistant messages already, so the endpoint itself keeps no state between requests.
 *
 * ```yaml
 * entries:
 *   - when: What is
 *     replies: [{solve: sum}]
 *   - when: Use the bump tool
 *     replies: [{toolCalls: [{name: bump, arguments: {by: 3}}], resplit: true}, {text: done}]
 * ```
 *
 * With `policy` in place of `replies` it chooses by weight, depending on what it was shown last; the seed of the request decides
 * (see `drawReply`). A request that no state matches is answered 500.
 *
 * ```yaml
 *   - when: Find the way out
 *     policy:
 *       - seen: a bright stair and a dark crack
 *         choices:
 *           - {weight: 3, reply: {text: Up, to the light., toolCalls: [{name: go, arguments: {way: stair}}]}}
 *           - {weight: 1, reply: {toolCalls: [{name: go, arguments: {way: crack}}]}}
 *       - {seen: You are outside, choices: [{weight: 1, reply: {text: Out.}}]}
 * ```
 */

const ScriptedToolCall = z
  .strictObject({
    name: z.string(),
    arguments: z.record(z.string(), z.unknown()).optional(),
    /** Sent as it stands, JSON or not. */
    rawArguments: z.string().optional(),
  })
  .refine((call) => call.arguments === undefined || call.rawArguments === undefined, {
    message: 'give `arguments` or `rawArguments`, not both',
  });

export const ScriptedReply = z
  .strictObject({
    text: z.string().optional(),
    /** In place of `text`: `sum` answers "What is 2 + 3?" with 5, whole numbers of any length and sign. */
    solve: z.enum(['sum']).optional(),
    toolCalls: z.array(ScriptedToolCall).min(1).optional(),
    finishReason: z.enum(['stop', 'tool_calls', 'length', 'content_filter']).optional(),
    /** Milliseconds before the answer. */
    delayMs: z.number().int().min(0).optional(),
    /** An HTTP error in place of an answer. */
    status: z.number().int().min(400).max(599).optional(),
    retryAfterS: z.number().min(0).optional(),
    /**
     * Its token ids are not those that later prompts have for the same text, as where an endpoint splits it anew: what
     * training must not take for one sequence. For requests with `return_token_ids`.
     */
    resplit: z.boolean().optional(),
    /** The HTTP body in place of a completion, as it stands. */
    body: z.string().optional(),
  })
  .refine((r) => [r.text, r.solve, r.toolCalls, r.status, r.body].some((v) => v !== undefined), {
    message: 'a reply needs `text`, `solve`, `toolCalls`, `status` or `body`',
  })
  .refine((r) => r.text === undefined || r.solve === undefined, {
    message: 'give `text` or `solve`, not both',
  });
export type ScriptedReply = z.infer<typeof ScriptedReply>;

const replies = z.array(ScriptedReply).min(1);

export const ScriptedPolicy = z
  .array(
    z.strictObject({
      seen: z.string().min(1),
      choices: z
        .array(z.strictObject({ weight: z.number().positive(), reply: ScriptedReply }))
        .min(1),
    }),
  )
  .min(1);
export type ScriptedPolicy = z.infer<typeof ScriptedPolicy>;

/** Exactly one of `replies` and `policy`. */
export const ScriptEntry = z
  .strictObject({
    when: z.string().min(1),
    replies: replies.optional(),
    /** Other ways it may go: a request with seed s gets way s modulo their number, `replies` being way 0. */
    variants: z.array(z.strictObject({ replies })).optional(),
    policy: ScriptedPolicy.optional(),
  })
  .refine((entry) => (entry.replies === undefined) !== (entry.policy === undefined), {
    message: 'give exactly one of `replies` and `policy`',
  })
  .refine((entry) => entry.variants === undefined || entry.policy === undefined, {
    message: '`variants` are of `replies`, and not of a `policy`',
  });
export type ScriptEntry = z.infer<typeof ScriptEntry>;

export const Script = z.strictObject({ entries: z.array(ScriptEntry).min(1) });
export type Script = z.infer<typeof Script>;

export class ScriptError extends Error {
  override readonly name = 'ScriptError';
}

/** Reads a script file. @throws ScriptError naming the file, the field and what is wrong with it */
export function readScript(file: string): Script {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new ScriptError(`cannot read the script ${file}: ${toMessage(error)}`, { cause: error });
  }
  try {
    return checkScript(parse(text), file);
  } catch (error) {
    if (!(error instanceof YAMLParseError)) throw error;
    throw new ScriptError(`${file} is not YAML: ${error.message}`, { cause: error });
  }
}

/** @throws ScriptError */
export function checkScript(value: unknown, source: string): Script {
  const parsed = Script.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => `${formatPath(issue.path)}: ${issue.message}`);
  throw new ScriptError(`${source} is not a script: ${issues.join('; ')}`);
}

const formatPath = (path: PropertyKey[]): string =>
  path.reduce<string>(
    (text, part) =>
      typeof part === 'number' ? `${text}[${part}]` : `${text}${text && '.'}${String(part)}`,
    '',
  ) || 'the file';

const toMessage = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
