import { z } from 'zod';
import type { HudCapability } from '../../../contracts/denv';
import type { CallAnswer, ControllerCall } from '../controller';

/** A capability as `hello` announces it: its `params` hold private keys and tokens, and never leave the server. */
export const Binding = z.object({
  name: z.string(),
  protocol: z.string(),
  url: z.string(),
  params: z.record(z.string(), z.unknown()).default({}),
});
export type Binding = z.infer<typeof Binding>;

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

/** The capabilities whose tools are offered: every one of MCP, and as HUD's agents do, only the first shell. */
export function toolBindings(bindings: Binding[]): Binding[] {
  const shell = bindings.find(isShell);
  return bindings.filter((binding) => isMcp(binding) || binding === shell);
}

export const isMcp = (binding: Binding): boolean => binding.protocol.startsWith('mcp/');

const isShell = (binding: Binding): boolean => binding.protocol.startsWith('ssh/');

/** What may be shown of the capabilities. */
export function toCapabilities(bindings: Binding[]): HudCapability[] {
  const withTools = toolBindings(bindings);
  return bindings.map((binding) => {
    const isolation = binding.params['isolation'];
    return {
      name: binding.name,
      protocol: binding.protocol,
      url: withoutSecrets(binding.url),
      use: withTools.includes(binding) ? 'tools' : 'address',
      ...(typeof isolation === 'string' ? { isolation } : {}),
    };
  });
}

/** Whether a task that asks for `wanted` is served: by name, by protocol, or by protocol without its version. */
export function offers(bindings: Binding[], wanted: string): boolean {
  return bindings.some(
    ({ name, protocol }) =>
      name === wanted || protocol === wanted || protocol.split('/')[0] === wanted,
  );
}

export function listCapabilities(bindings: Binding[]): string {
  if (bindings.length === 0) return 'none';
  return bindings.map(({ name, protocol }) => `${name} (${protocol})`).join(', ');
}

/** An address may carry a password before its host, or a token behind its path. */
function withoutSecrets(url: string): string {
  return url.replace(/^([\w+.-]+:\/\/)[^/?#]*@/, '$1').replace(/[?#].*$/s, '');
}
