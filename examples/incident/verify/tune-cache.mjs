import { giveRewards, submittedJson, submittedText } from './submission.mjs';

const { maxEntries = 0, ttlS = 0 } =
  submittedJson('/workspace/ops/state.json').running?.cache ?? {};
const memoryMb = Math.ceil(Number(maxEntries) / 250);
const hitRate =
  (Number(maxEntries) / (Number(maxEntries) + 1000)) * (Number(ttlS) / (Number(ttlS) + 9));
const rewards = {
  hitRate: Number.isFinite(hitRate) ? Math.round(hitRate * 1000) / 1000 : 0,
  thrift: memoryMb <= 64 ? 1 : 0,
  report: submittedText('/workspace/report.txt').includes(String(memoryMb)) ? 1 : 0,
};
const good = rewards.hitRate >= 0.8 ? 1 : 0;
giveRewards({ reward: good * rewards.thrift * (rewards.report ? 1 : 0.75), ...rewards });
