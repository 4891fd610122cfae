import { readCollected } from './collect';

const MAX_BYTES = 1024 * 1024;

export type Verdict =
  | { reward: number; rewards: Record<string, number> }
  /** Why there is none, in words. */
  | { none: string };

/**
 * What a verifier wrote: `reward.json` (`reward` and named rewards, finite numbers), else `reward.txt`. Read by the
 * collector's rules, since it ran under another principal.
 */
export async function readVerdict(folder: string): Promise<Verdict> {
  const json = await readCollected(folder, 'reward.json', MAX_BYTES);
  if (json) {
    if ('refused' in json) return { none: `/verdict/reward.json: ${json.refused}` };
    return parseJson(json.data.toString('utf8'));
  }
  const text = await readCollected(folder, 'reward.txt', MAX_BYTES);
  if (!text)
    return { none: 'the verifier wrote neither /verdict/reward.json nor /verdict/reward.txt' };
  if ('refused' in text) return { none: `/verdict/reward.txt: ${text.refused}` };
  const line = text.data.toString('utf8').trim();
  const reward = line === '' ? Number.NaN : Number(line);
  if (!Number.isFinite(reward)) return { none: '/verdict/reward.txt: not a finite number' };
  return { reward, rewards: {} };
}

function parseJson(text: string): Verdict {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { none: '/verdict/reward.json: not JSON' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { none: '/verdict/reward.json: not an object' };
  }
  const rewards: Record<string, number> = {};
  for (const [name, number] of Object.entries(value)) {
    if (typeof number !== 'number' || !Number.isFinite(number)) {
      return { none: `/verdict/reward.json: \`${name}\` is not a finite number` };
    }
    rewards[name] = number;
  }
  const { reward, ...named } = rewards;
  if (reward === undefined) return { none: '/verdict/reward.json: `reward` is missing' };
  return { reward, rewards: named };
}
