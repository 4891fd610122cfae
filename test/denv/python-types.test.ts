import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { z } from 'zod';
import * as wire from '../../contracts/denv';

/** A field as both sides can say it: whether it is required, and its kinds of value, sorted. */
type Field = { required: boolean; kinds: string[] };
type Fields = Record<string, Field>;

interface JsonSchema {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
}

const PYTHON = '/usr/bin/python3';
const hasPython =
  spawnSync(PYTHON, ['-c', 'import sys; sys.exit(sys.version_info < (3, 11))']).status === 0;

/** Each type of python/src/denv/types.py, and the schema that it is the Python of. */
const requests: Record<string, { schema: z.ZodType; without?: string[] }> = {
  Caps: { schema: wire.Caps },
  ControllerSpec: { schema: wire.ControllerSpec },
  CreateRequest: { schema: wire.CreateSandboxRequest },
  ExecRequest: { schema: wire.ExecRequest, without: ['argv'] },
  CallRequest: { schema: wire.CallRequest, without: ['method', 'params'] },
  SnapshotRequest: { schema: wire.SnapshotRequest },
  ForkRequest: { schema: wire.ForkRequest },
  CollectEntry: { schema: wire.CollectPath.options[1] },
  Verifier: { schema: wire.VerifierSpec },
  VerifyRequest: { schema: wire.VerifyRequest, without: ['verifier'] },
};
const replies: Record<string, z.ZodType> = {
  ForkedFrom: wire.Sandbox.shape.forkedFrom.unwrap(),
  ControllerState: wire.Sandbox.shape.controller,
  StopEvidence: wire.StopEvidence,
  Sandbox: wire.Sandbox,
  ExecReply: wire.ExecReply,
  CallError: wire.CallReply.shape.error.unwrap(),
  CallReply: wire.CallReply,
  Version: wire.Version,
  ErrorBody: wire.ErrorBody.shape.error,
  ForkChild: wire.ForkReply.shape.children.element,
  ForkReply: wire.ForkReply,
  VerifyReply: wire.VerifyReply,
  RecordEntry: wire.RecordEntry,
  DeploymentRecord: wire.DeploymentRecord,
  Target: wire.Target,
};

function toKinds(schema: JsonSchema): string[] {
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return [...new Set(options.flatMap(toKinds))].toSorted();
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).toSorted();
  const types = [schema.type ?? 'any'].flat();
  return types.map((type) => (type === 'integer' ? 'number' : type)).toSorted();
}

/** The fields of an object; of a union of objects those of all, required where each has them. */
function toFields(schema: JsonSchema): Fields {
  const options = schema.anyOf ?? schema.oneOf ?? [schema];
  const names = new Set(options.flatMap((option) => Object.keys(option.properties ?? {})));
  return Object.fromEntries(
    [...names].map((name): [string, Field] => {
      const found = options.flatMap((option) => option.properties?.[name] ?? []);
      return [
        name,
        {
          required: options.every((option) => option.required?.includes(name)),
          kinds: toKinds({ anyOf: found }),
        },
      ];
    }),
  );
}

function fieldsOf(schema: z.ZodType, io: 'input' | 'output', without: string[] = []): Fields {
  const fields = toFields(z.toJSONSchema(schema, { io, reused: 'inline' }) as JsonSchema); // as JSON Schema has it
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !without.includes(name)));
}

/** Files are local paths in Python: the client packs them. */
const packed: Field['kinds'] = ['object'];
const withLocalFiles = (fields: Fields): Fields =>
  fields['files'] ? { ...fields, files: { ...fields['files'], kinds: packed } } : fields;

(hasPython ? describe : describe.skip)(
  `the types of the Python client${hasPython ? '' : ` (needs ${PYTHON} 3.11)`}`,
  () => {
    const types = hasPython
      ? (JSON.parse(
          execFileSync(
            PYTHON,
            [
              join(__dirname, 'python-fields.py'),
              join(__dirname, '../../python/src/denv/types.py'),
            ],
            { encoding: 'utf8' },
          ),
        ) as Record<string, Fields>) // printed by python-fields.py
      : {};

    it.each(Object.entries(requests))(
      'send what the contract takes: %s',
      (name, { schema, without = [] }) => {
        // How long an answer may take is the client's own affair.
        const wanted = fieldsOf(schema, 'input', [...without, 'wait']);

        expect(types[name]).toEqual(withLocalFiles(wanted));
      },
    );

    it.each(Object.entries(replies))('hold what the contract answers: %s', (name, schema) => {
      expect(types[name]).toEqual(fieldsOf(schema, 'output'));
    });

    it('are all compared', () => {
      expect(Object.keys(types).toSorted()).toEqual(
        [...Object.keys(requests), ...Object.keys(replies)].toSorted(),
      );
    });
  },
);
