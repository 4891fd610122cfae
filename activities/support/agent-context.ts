import { z } from 'zod';
import { ModelChoice } from '../../contracts/rollout';

/** A tool as its controller lists it. */
export const Tool = z.looseObject({
  name: z.string(),
  description: z.string().optional(),
  inputSchema: z.record(z.string(), z.unknown()),
  annotations: z.looseObject({ readOnlyHint: z.boolean().optional() }).optional(),
});
export type Tool = z.infer<typeof Tool>;

/** What stays the same for every model call of an attempt: kept as one blob, so that no call repeats it in the history. */
export const AgentContext = z.object({
  taskRef: z.string(),
  model: ModelChoice,
  tools: z.array(Tool),
  /** Blob ref of the Opening that a HUD environment gave; the task's own prompt where it is left out. */
  promptRef: z.string().optional(),
  /** Calls of `checkpoint` and `rollback` are ours: the sandbox never hears of them. */
  checkpointTools: z.boolean().optional(),
});
export type AgentContext = z.infer<typeof AgentContext>;
