/**
 * The controller of a sandbox that brings none: `bash`, `read_file` and `write_file`, each one exec. Nothing of it runs in the
 * sandbox between calls, so nothing is lost when the server dies.
 */

export interface ShellCommand {
  argv: string[];
  stdin: string | null;
}

const MAX_READ_BYTES = 16 * 1024 * 1024;

const path = { type: 'string', description: 'Absolute, or relative to the working directory.' };

export const shellTools = [
  {
    name: 'bash',
    description:
      'Run a command with bash (sh where there is no bash) and return its exit code, stdout and stderr.',
    inputSchema: {
      type: 'object',
      properties: { command: { type: 'string' } },
      required: ['command'],
      additionalProperties: false,
    },
  },
  {
    name: 'read_file',
    description: 'Return the content of a text file.',
    inputSchema: {
      type: 'object',
      properties: { path },
      required: ['path'],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: 'write_file',
    description: 'Write a text file, making its folders.',
    inputSchema: {
      type: 'object',
      properties: { path, content: { type: 'string' } },
      required: ['path', 'content'],
      additionalProperties: false,
    },
  },
];

/**
 * The command of a tool call.
 * @returns the command, or in words what is wrong with the arguments
 */
export function shellCommand(params: Record<string, unknown>): ShellCommand | { invalid: string } {
  const name = params['name'];
  const tool = shellTools.find((t) => t.name === name);
  if (!tool) {
    return {
      invalid: `no tool ${JSON.stringify(name)}; there are ${shellTools.map((t) => t.name).join(', ')}`,
    };
  }
  const args = params['arguments'] ?? {};
  if (typeof args !== 'object' || args === null)
    return { invalid: `arguments of ${tool.name}: not an object` };
  const values = new Map<string, unknown>(Object.entries(args));
  for (const field of tool.inputSchema.required) {
    if (typeof values.get(field) !== 'string') {
      return { invalid: `arguments of ${tool.name}: \`${field}\` must be a string` };
    }
  }
  for (const field of values.keys()) {
    if (!(field in tool.inputSchema.properties)) {
      return { invalid: `arguments of ${tool.name}: unknown field \`${field}\`` };
    }
  }
  const text = (field: string) => String(values.get(field));
  switch (tool.name) {
    case 'bash':
      return {
        argv: [
          'sh',
          '-c',
          'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi',
          'sh',
          text('command'),
        ],
        stdin: null,
      };
    case 'read_file':
      return { argv: ['head', '-c', String(MAX_READ_BYTES), '--', text('path')], stdin: null };
    default:
      return {
        argv: ['sh', '-c', 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"', 'sh', text('path')],
        stdin: text('content'),
      };
  }
}

/** What the agent is shown of a finished command, in the shape of an MCP tool result. */
export function shellResult(
  tool: string,
  end: { exitCode: number | null; stdout: string; stderr: string; truncated: boolean },
): Record<string, unknown> {
  const isError = end.exitCode !== 0;
  const note = end.truncated ? '\n[output cut at its limit]' : '';
  let text: string;
  if (tool === 'read_file' && !isError) text = end.stdout + note;
  else if (tool === 'write_file' && !isError) text = 'written';
  else {
    const exit = end.exitCode === null ? 'killed' : `exit code ${end.exitCode}`;
    const parts = [end.stdout, end.stderr && `stderr:\n${end.stderr}`, `[${exit}]${note}`];
    text = parts.filter((part) => part !== '').join('\n');
  }
  return {
    content: [{ type: 'text', text }],
    isError,
    structuredContent: { exitCode: end.exitCode },
  };
}
