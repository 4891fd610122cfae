import type { TokenCheck } from '../../contracts/rollout';
import type { RolloutDescription } from '../api/describe';
import { formatReward, oneLine, tableLines } from './table';

/** Returns a HUD environment with its capabilities: tools for the agent, or an address that is passed on as it is. */
export function hudLines({ hud }: Pick<RolloutDescription, 'hud'>): string[] {
  if (!hud) return [];
  const head = `  ${hud.name}${hud.version === null ? '' : ` ${hud.version}`}`;
  if (hud.capabilities.length === 0) return [`${head}, without capabilities`];
  const rows = hud.capabilities.map(({ name, protocol, use, isolation, url }) => [
    name,
    protocol,
    use === 'tools' ? 'tools of the agent' : 'an address',
    isolation ?? '',
    url,
  ]);
  const table = tableLines(['capability', 'protocol', 'use', 'isolation', 'address'], rows);
  return [head, ...table.map((line) => `  ${line}`)];
}

/** Returns the reward of every grader, with its parts below it. */
export function gradeLines({ grades }: Pick<RolloutDescription, 'grades'>): string[] {
  if (grades.length === 0) return [];
  const rows = grades.map(({ name, kind, principal, reward, weight, summary }) => [
    name,
    kind,
    principal,
    reward === null ? '-' : formatReward(reward),
    formatReward(weight),
    oneLine(summary),
  ]);
  const [head = '', ...lines] = tableLines(
    ['name', 'kind', 'by', 'reward', 'weight', 'summary'],
    rows,
  );
  return [
    `  ${head}`,
    ...lines.flatMap((line, i) => [`  ${line}`, ...partLines(grades[i]?.rewards ?? {})]),
  ];
}

function partLines(rewards: Record<string, number>): string[] {
  const parts = Object.entries(rewards).map(([name, value]) => `${name} ${formatReward(value)}`);
  return parts.length === 0 ? [] : [`    of ${parts.join(', ')}`];
}

/** Says whether a rollout's token ids can be trained on. */
export function tokenWords({ turns, broken }: TokenCheck): string {
  const of = `of ${turns} ${turns === 1 ? 'turn' : 'turns'}`;
  if (broken.length === 0) return `${of}, each continuing the one before`;
  const steps = broken.length === 1 ? `step ${broken[0]}` : `steps ${broken.join(', ')}`;
  return `${of}; ${steps} did not continue the one before`;
}
