import { callActivities } from './calls';
import { checkpointToolActivities } from './checkpoint-tools';
import { continuationActivities } from './continuations';
import { createDocuments } from '../rollouts/documents';
import { graderActivities } from './graders';
import { hudActivities } from './hud';
import { judgeActivities } from './judge';
import type { Dependencies } from './support/parts';
import { recordActivities } from './records';
import { regradeActivities } from './regrade';
import { replayActivities } from './replay';
import { sandboxActivities } from './sandboxes';
import { stepActivities } from './step';
import { toolActivities } from './tools';
import { trajectoryActivities } from './trajectory';
import { verifyActivities } from './verify';

/** The full set of effects that a workflow can reach. Each is idempotent: by its key, or by nature. */
export function createActivities(dependencies: Dependencies) {
  const parts = { ...dependencies, documents: createDocuments(dependencies.blobs) };
  return {
    ...sandboxActivities(parts),
    ...toolActivities(parts),
    ...callActivities(parts),
    ...checkpointToolActivities(parts),
    ...continuationActivities(parts),
    ...replayActivities(parts),
    ...trajectoryActivities(parts),
    ...stepActivities(parts),
    ...verifyActivities(parts),
    ...hudActivities(parts),
    ...graderActivities(parts),
    ...judgeActivities(parts),
    ...recordActivities(parts),
    ...regradeActivities(parts),
  };
}

export type Activities = ReturnType<typeof createActivities>;
export type { Dependencies };
