import type { RolloutDescription } from './describe';
import { formatReward } from './report';

/** The verdicts that a rollout was given after its end, the newest last. */
export function regradeLines({ regrades }: Pick<RolloutDescription, 'regrades'>): string[] {
  return regrades.map(({ regradeId, version, reward, why, at, current }) => {
    const said = reward === null ? (why ?? 'no verdict') : `reward ${formatReward(reward)}`;
    return `  ${regradeId} of ${version}, ${at}: ${said}${current ? ' (current)' : ''}`;
  });
}
