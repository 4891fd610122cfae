import { z } from 'zod';

/**
 * A row of a HUD taskset, as HUD writes it, and what of it can be honoured. `runtime` is ours, and so are `pids`, `diskMb` and
 * `egress` inside `runtime_config`.
 */

const seconds = z.number().positive().max(86_400);
const wholeSeconds = z.number().int().positive().max(86_400);
const args = z.record(z.string(), z.unknown());

export const HudRuntimeConfig = z.strictObject({
  image: z.string().min(1).nullish(),
  /** Refused in words of its own wherever it is not null. */
  compose: z.unknown().optional(),
  resources: z
    .strictObject({
      cpu: z.number().positive().nullish(),
      memory_mb: z.number().int().min(16).nullish(),
      storage_mb: z.number().int().positive().nullish(),
      gpu: z.unknown().optional(),
      os: z.string().min(1).nullish(),
      tpu: z.unknown().optional(),
      pids: z.number().int().min(8).nullish(),
      diskMb: z.number().int().positive().nullish(),
    })
    .nullish(),
  limits: z
    .strictObject({
      startup_timeout_s: wholeSeconds.nullish(),
      run_timeout_s: wholeSeconds.nullish(),
    })
    .nullish(),
  egress: z.literal('deny').nullish(),
});
export type HudRuntimeConfig = z.infer<typeof HudRuntimeConfig>;

export const HudAgentConfig = z.strictObject({
  timeout_seconds: seconds.nullish(),
  max_steps: z.number().int().min(1).max(10_000).nullish(),
  tool_timeout_seconds: seconds.nullish(),
  system_prompt: z.string().nullish(),
});

/** The same model as a task's in HUD; what of it means something there is checked apart. */
const HudVerifier = z.strictObject({
  env: z.string().min(1),
  id: z.string().min(1),
  args: args.optional(),
  slug: z.string().optional(),
  columns: z.unknown().optional(),
  agent_config: z.unknown().optional(),
  runtime_config: z.unknown().optional(),
  verifier: z.unknown().optional(),
  validation: z.unknown().optional(),
});

export const HudRow = z.strictObject({
  env: z.string().min(1),
  id: z.string().min(1),
  args: args.optional(),
  slug: z.string().min(1).optional(),
  columns: z.record(z.string(), z.unknown()).nullish(),
  agent_config: HudAgentConfig.nullish(),
  runtime_config: HudRuntimeConfig.nullish(),
  verifier: HudVerifier.nullish(),
  validation: z.array(args).nullish(),
  runtime: z.string().min(1).optional(),
});
export type HudRow = z.infer<typeof HudRow>;
