import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import type { Complaint, FieldPath } from './refusals';

/** Complains of files that a task names and that are missing, or that lie outside the taskset's folder. */
export function fileComplaints(task: unknown, folder: string): Complaint[] {
  return ['environment', 'verifier'].flatMap((part) => {
    const files: unknown = Reflect.get(Object(Reflect.get(Object(task), part)), 'files');
    if (!Array.isArray(files)) return [];
    return files.flatMap((file: unknown, i): Complaint[] => {
      const from: unknown = Reflect.get(Object(file), 'from');
      if (typeof from !== 'string') return [];
      const path: FieldPath = [part, 'files', i, 'from'];
      if (isAbsolute(from)) {
        const remedy = 'give a path from the taskset\u2019s own folder';
        return [{ path, message: `${from} is an absolute path`, remedy }];
      }
      const found = resolve(folder, from);
      if (existsSync(found)) return [];
      return [{ path, message: `there is no ${found}`, remedy: 'make it, or mend the path' }];
    });
  });
}
