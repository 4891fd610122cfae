import type { z } from 'zod';
import type { HudErrorKind } from '../../../contracts/denv';
import type { CallAnswer } from '../controller';
import type { HudReply } from './channel';

type Kind = z.infer<typeof HudErrorKind>;

const CODES: Record<Kind, number> = { bad_task: -32602, raised: -32000, protocol: -32603 };

/** What went wrong with a task, and whose fault it is: an answer to the caller, not an error of the server. */
export class HudFault extends Error {
  override readonly name = 'HudFault';
  constructor(
    readonly kind: Kind,
    message: string,
    /** Stays beside the kind in the answer, such as the grade that a verifier then could not judge. */
    readonly evidence: Record<string, unknown> = {},
  ) {
    super(message);
  }

  toAnswer(): CallAnswer {
    const data = { kind: this.kind, ...this.evidence };
    return { kind: 'error', error: { code: CODES[this.kind], message: this.message, data } };
  }
}

/** @throws HudFault when the reply is an error */
export function requireResult(
  reply: HudReply,
  phase: 'start' | 'grade',
  what: string,
): Record<string, unknown> {
  if ('result' in reply) return reply.result;
  const { code, message } = reply.error;
  const said = `${what}: ${message}`;
  if (phase === 'start' && code === -32602) throw new HudFault('bad_task', said);
  if (code !== -32000) throw new HudFault('protocol', `${said} (${code})`);
  // The same code stands for what the environment raised and for what HUD's server says of itself.
  if (message.startsWith('Control-channel ')) throw new HudFault('protocol', said);
  if (phase === 'start' && /^task '[^']*': bad args/.test(message)) {
    throw new HudFault('bad_task', said);
  }
  throw new HudFault('raised', `${what} raised ${readable(message)}`);
}

/** HUD sends the text of an exception without its type: nothing for many, and of a KeyError the key alone. */
function readable(message: string): string {
  if (message === '') return 'an error without a message';
  if (/^'[^']*'$/.test(message)) return `${message} (a key that is missing?)`;
  return message;
}
