import type { Version } from '../../contracts/denv';
import type { RolloutFacts, VersionFacts } from '../../retention/rules';

export const owner = 'own_1/ns_1';
/** The moment that tests of retention take for now. */
export const now = Date.parse('2026-02-01T00:00:00.000Z');
export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

export const at = (beforeMs: number): string => new Date(now - beforeMs).toISOString();

export const versionOf = (id: string, over: Partial<Version> = {}): Version => ({
  id,
  sandbox: 'sb_1',
  createdAt: at(hourMs),
  retainUntil: at(-7 * dayMs),
  reproducible: true,
  labels: { owner, rolloutId: 'rollout/b/t/0' },
  pausedMs: 1,
  flushMs: 1,
  bytes: null,
  usedBy: [],
  ...over,
});

/** A version of a rollout that ended half an hour ago, with whatever matters to a test. */
export const factsWith = (
  rollout: Partial<RolloutFacts> | null = {},
  {
    version,
    ...over
  }: Partial<Omit<VersionFacts, 'version'>> & { version?: Partial<Version> } = {},
): VersionFacts => ({
  version: versionOf(version?.id ?? 'ver_1', version),
  rollout: rollout && {
    state: 'closed',
    endedMs: now - hourMs / 2,
    keep: 'final',
    neededBy: null,
    judged: [],
    best: null,
    ...rollout,
  },
  beingJudged: false,
  sharedBy: null,
  ...over,
});
