import { schemaComplaints } from '../complaints';
import { isSet } from './config';
import { HudRow } from './row';
import type { Complaint } from '../refusals';

/** Fields of HUD's own agents that a row of theirs may carry, and why no rollout here can honour them. */
const agentFields: Record<string, { message: string; remedy: string }> = {
  model: { message: 'the model is chosen for a whole batch', remedy: 'say it with --model' },
  model_name: { message: 'the model is chosen for a whole batch', remedy: 'say it with --model' },
  gateway: { message: 'HUD\u2019s model gateway is not used', remedy: 'leave it out' },
  auto_respond: { message: 'not supported', remedy: 'leave it out' },
  citations_enabled: { message: 'not supported', remedy: 'leave it out' },
  stop_on: { message: 'not supported', remedy: 'leave it out' },
  hosted_tools: {
    message: 'tools that a model\u2019s provider hosts are not supported',
    remedy: 'leave it out',
  },
  screenshot_encoding: { message: 'not supported', remedy: 'leave it out' },
};

/** Complains of all that is wrong with a row by itself, wherever it is to run. */
export function hudRowComplaints(value: object): Complaint[] {
  const complaints = schemaComplaints(HudRow, value).map((complaint) => {
    const [first, field] = complaint.path;
    const known = first === 'agent_config' ? agentFields[String(field)] : undefined;
    return known && complaint.message === 'unknown field' ? { ...complaint, ...known } : complaint;
  });
  return [...complaints, ...verifierComplaints(value)];
}

/** A verifier is graded on the connection of the task itself, right after it; anything else would be another machine. */
function verifierComplaints(row: object): Complaint[] {
  const verifier: unknown = Reflect.get(row, 'verifier');
  if (typeof verifier !== 'object' || verifier === null) return [];
  const complaints: Complaint[] = [];
  const complain = (field: string, message: string, remedy: string) =>
    complaints.push({ path: ['verifier', field], message, remedy });
  const own = (field: string): unknown => Reflect.get(verifier, field);
  const env: unknown = Reflect.get(row, 'env');
  if (typeof own('env') === 'string' && own('env') !== env) {
    const message = `a verifier of another environment than ${JSON.stringify(env)} is not supported`;
    complain('env', message, 'verify in the same environment, or by `verifier` of a native task');
  }
  if (isSet(own('runtime_config'))) {
    const message = 'a verifier on a machine of its own is not supported';
    complain('runtime_config', message, 'leave it out: it is graded on the task\u2019s connection');
  }
  if (isSet(own('verifier'))) {
    complain('verifier', 'nested verifiers are not supported', 'leave it out');
  }
  if (isSet(own('agent_config'))) {
    complain('agent_config', 'a verifier has no agent', 'leave it out');
  }
  return complaints;
}
