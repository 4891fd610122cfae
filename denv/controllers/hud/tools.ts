import type { Socket } from 'node:net';
import type { CallAnswer, ControllerCall } from '../controller';
import { type Binding, isMcp, type Tool, toolBindings, type Toolset } from './capabilities';
import { McpToolset } from './mcp';
import { SshToolset } from './ssh';
import { openTunnel } from './tunnel';

interface Route {
  toolset: Toolset;
  name: string;
}

/** The tools of all capabilities of an environment as one list, and the way from a name there to its capability. */
export class HudTools {
  private readonly toolsets: Toolset[];
  private routes: Map<string, Route> | null = null;

  constructor(connect: () => Promise<Socket>, bindings: Binding[]) {
    this.toolsets = toolBindings(bindings).map((binding) => {
      const tunnel = () => openTunnel(connect, binding.name);
      return isMcp(binding) ? new McpToolset(binding, tunnel) : new SshToolset(binding, tunnel);
    });
  }

  async list(call: ControllerCall): Promise<CallAnswer> {
    const listings = await Promise.all(this.toolsets.map((toolset) => toolset.list(call)));
    const routes = new Map<string, Route>();
    const tools: Tool[] = [];
    for (const [n, listing] of listings.entries()) {
      const toolset = this.toolsets[n];
      if ('answer' in listing) return listing.answer;
      for (const tool of listing.tools) {
        if (!toolset) continue;
        const name = this.nameOf(toolset, tool.name, routes);
        routes.set(name, { toolset, name: tool.name });
        tools.push({ ...tool, name });
      }
    }
    this.routes = routes;
    return { kind: 'result', result: { tools } };
  }

  async call(call: ControllerCall): Promise<CallAnswer> {
    const wanted = String(call.params['name']);
    if (!this.routes?.has(wanted)) {
      const quiet = { sending: () => undefined, sent: () => undefined };
      const listing = await this.list({
        ...call,
        ...quiet,
        callId: `${call.callId}-list`,
        params: {},
      });
      if (listing.kind !== 'result') return listing;
    }
    const route = this.routes?.get(wanted);
    if (route) return route.toolset.call(call, route.name);
    const there = [...(this.routes?.keys() ?? [])].join(', ') || 'none';
    return {
      kind: 'error',
      error: { code: -32602, message: `no tool ${JSON.stringify(wanted)}; there are ${there}` },
    };
  }

  close(): void {
    for (const toolset of this.toolsets) toolset.close();
  }

  /** Names a tool as HUD's agents do: prefixed by their capability where two or more speak MCP, or where a name is taken. */
  private nameOf(toolset: Toolset, name: string, taken: Map<string, Route>): string {
    const several = this.toolsets.filter(({ binding }) => isMcp(binding)).length > 1;
    const prefixed = `${toolset.binding.name}__${name}`;
    return (isMcp(toolset.binding) && several) || taken.has(name) ? prefixed : name;
  }
}
