import { resolve } from 'node:path';
import type { FileSource, FilesRef, PackedTask, Task } from '../contracts/task';
import type { BlobStore } from '../stores/blobs';
import { digestOf } from '../rollouts/canonical';
import type { LoadedTaskset } from './loaded-taskset';
import { packTree } from './tree-tar';

/**
 * Packs a task so that it runs anywhere: its trees go into the blob store as tar archives, and no path of this machine is
 * left. The digest is over the task and the contents of its trees, so the same task from another folder has the same one; where
 * an environment that somebody else started happens to answer is no part of it.
 * Idempotent: equal tasks give equal blobs.
 * @returns the packed task and the ref of its own blob
 * @throws TreeRefusedError
 */
export async function packTask(
  taskset: LoadedTaskset,
  task: Task,
  blobs: BlobStore,
): Promise<{ packed: PackedTask; taskRef: string }> {
  const environmentFiles: FilesRef[] = [];
  for (const tree of taskset.trees?.get(task.id) ?? []) {
    environmentFiles.push(await tree.pack(blobs));
  }
  environmentFiles.push(...(await packFiles(taskset.folder, task.environment.files, blobs)));
  const verifierFiles = await packFiles(taskset.folder, task.verifier?.files, blobs);
  const bare: Task = {
    ...task,
    environment: { ...task.environment, files: undefined },
    ...(task.verifier ? { verifier: { ...task.verifier, files: undefined } } : {}),
  };
  const { address: _where, shared: _howMany, ...environment } = bare.environment;
  const digest = digestOf({ task: { ...bare, environment }, environmentFiles, verifierFiles });
  const packed: PackedTask = {
    id: task.id,
    taskset: taskset.name,
    digest,
    task: bare,
    environmentFiles,
    verifierFiles,
  };
  const { ref } = await blobs.put(Buffer.from(JSON.stringify(packed)));
  return { packed, taskRef: ref };
}

async function packFiles(
  folder: string,
  files: FileSource[] | undefined,
  blobs: BlobStore,
): Promise<FilesRef[]> {
  const refs: FilesRef[] = [];
  for (const file of files ?? []) {
    const { to, tar } = await packTree(resolve(folder, file.from), file.to);
    refs.push({ to, ...(await blobs.put(tar)) });
  }
  return refs;
}
