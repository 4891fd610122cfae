import { readFileSync, writeFileSync } from 'node:fs';
import { rewardOf, roomsOf } from './map.mjs';

/** Goes the submitted walk again, by a map that the agent could not write to. */
const walk = submitted('/submission/workspace/maze/walk');
console.log(roomsOf(walk).join(' > '));
writeFileSync('/verdict/reward.json', JSON.stringify({ reward: rewardOf(walk) }));

function submitted(path) {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}
