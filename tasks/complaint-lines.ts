import type { SourcePart } from './formats';
import { fieldName } from './refusals';
import type { Complaint, Refusal } from './refusals';

/** Adds file and line to a complaint. The line of a field that the task did not write itself is the one in the defaults. */
export function toRefusal(
  file: string,
  complaint: Complaint,
  label: string,
  row: SourcePart,
  defaults?: SourcePart,
): Refusal {
  const { path, message, remedy } = complaint;
  const own = row.lineOf(path);
  const shared = defaults?.lineOf(path);
  const ofDefaults = shared !== undefined && shared.depth > own.depth;
  return {
    file,
    line: ofDefaults ? shared.line : own.line,
    row: ofDefaults ? 'defaults' : label,
    field: fieldName(path),
    message,
    remedy,
  };
}

/** Complains of a name that an earlier row has. */
export function repeatComplaints(
  firstLines: Map<string, number>,
  name: string,
  field: string,
  row: SourcePart,
): Complaint[] {
  const before = firstLines.get(name);
  if (before === undefined) {
    firstLines.set(name, row.lineOf([field]).line);
    return [];
  }
  const remedy = `give each ${field === 'id' ? 'task its own id' : 'row its own slug'}`;
  return [{ path: [field], message: `used before, on line ${before}`, remedy }];
}
