import type { CallAnswer, ControllerCall } from '../controller';
import type { Binding } from './capabilities';

export type Tool = { name: string } & Record<string, unknown>;

/** The tools of one capability, by their own names. */
export interface Toolset {
  readonly binding: Binding;
  /** @throws ControllerLost */
  list(call: ControllerCall): Promise<{ tools: Tool[] } | { answer: CallAnswer }>;
  /** @throws ControllerLost */
  call(call: ControllerCall, name: string): Promise<CallAnswer>;
  close(): void;
}

export const cancelledAnswer: CallAnswer = {
  kind: 'error',
  error: { code: -32800, message: 'cancelled' },
};
