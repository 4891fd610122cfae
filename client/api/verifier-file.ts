import { readFile } from 'node:fs/promises';
import { dirname, extname, resolve } from 'node:path';
import { Verifier } from '../../contracts/task';
import type { FilesRef, PackedTask } from '../../contracts/task';
import type { BlobStore } from '../../stores/blobs';
import { digestOf } from '../../rollouts/canonical';
import { schemaComplaints } from '../../tasks/complaints';
import { MalformedTextError, parseJson, parseYaml } from '../../tasks/document';
import type { SourceDocument } from '../../tasks/document';
import { fileComplaints } from '../../tasks/file-complaints';
import { fieldName, formatRefusal } from '../../tasks/refusals';
import type { Complaint } from '../../tasks/refusals';
import { unsupportedValues } from '../../tasks/target-limits';
import type { ImagePlaces } from '../../tasks/target-limits';
import { packTree } from '../../tasks/tree-tar';
import { reasonOf, UsageError } from '../errors';

/** A verifier by itself, ready to take the place of a task's own. */
export interface PackedVerifier {
  verifier: Verifier;
  files: FilesRef[];
}

/**
 * Reads a verifier as a task's `verifier` would have it, from YAML or JSON, and packs the files that it names, relative to its own
 * folder, into the blob store.
 * @throws UsageError with all that is wrong, by line and field
 */
export async function loadVerifier(
  file: string,
  places: ImagePlaces,
  blobs: BlobStore,
): Promise<PackedVerifier> {
  const document = await readDocument(file);
  const folder = dirname(resolve(file));
  const complaints = complaintsAbout(document.value, folder, places);
  if (complaints.length > 0) {
    throw new UsageError(complaints.map((complaint) => told(file, document, complaint)).join('\n'));
  }
  const { files: sources = [], ...verifier } = Verifier.parse(document.value);
  const files: FilesRef[] = [];
  for (const { from, to } of sources) {
    const { to: place, tar } = await packTree(resolve(folder, from), to);
    files.push({ to: place, ...(await blobs.put(tar)) });
  }
  return { verifier, files };
}

/** A task with another verifier: all else of it stays. */
export function withVerifier(packed: PackedTask, { verifier, files }: PackedVerifier): PackedTask {
  const task = { ...packed.task, verifier };
  const { digest } = packed;
  return {
    ...packed,
    task,
    verifierFiles: files,
    digest: digestOf({ digest, verifier, verifierFiles: files }),
  };
}

async function readDocument(file: string): Promise<SourceDocument> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--verifier ${file} cannot be read: ${reasonOf(error)}`);
  }
  try {
    return extname(file).toLowerCase() === '.json' ? parseJson(text) : parseYaml(text);
  } catch (error) {
    if (!(error instanceof MalformedTextError)) throw error;
    throw new UsageError(`${file}:${error.line}: malformed: ${error.message}`);
  }
}

/** Judged as in a task, whose other fields are of no matter here. */
function complaintsAbout(value: unknown, folder: string, places: ImagePlaces): Complaint[] {
  const whole = { environment: { image: 'host' }, verifier: value };
  const ofVerifier = [...unsupportedValues(whole, places), ...fileComplaints(whole, folder)]
    .filter(({ path }) => path[0] === 'verifier')
    .map((complaint) => ({ ...complaint, path: complaint.path.slice(1) }));
  const named = new Set(ofVerifier.map(({ path }) => fieldName(path)));
  const others = schemaComplaints(Verifier, value).filter(
    ({ path }) => !named.has(fieldName(path)),
  );
  return [...ofVerifier, ...others];
}

const told = (file: string, document: SourceDocument, complaint: Complaint): string =>
  formatRefusal({
    file,
    line: document.lineOf(complaint.path).line,
    row: '',
    field: fieldName(complaint.path),
    message: complaint.message,
    remedy: complaint.remedy,
  });
