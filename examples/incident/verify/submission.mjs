import { readFileSync, writeFileSync } from 'node:fs';

/** What the agent left is data and may be anything: what is missing or does not parse is empty, and earns nothing. */
export function submittedText(path) {
  try {
    return readFileSync(`/submission${path}`, 'utf8');
  } catch {
    return '';
  }
}

export function submittedJson(path) {
  try {
    return JSON.parse(submittedText(path)) ?? {};
  } catch {
    return {};
  }
}

export const giveRewards = (rewards) =>
  writeFileSync('/verdict/reward.json', JSON.stringify(rewards));
