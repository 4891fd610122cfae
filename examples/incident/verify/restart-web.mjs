import { giveRewards, submittedJson, submittedText } from './submission.mjs';

const { running } = submittedJson('/workspace/ops/state.json');
const mended = running?.web?.upstreamPort === 8080 && running?.api?.port === 8080;
const named = /upstream|8081/i.test(submittedText('/workspace/report.txt'));
console.log(`mended: ${mended}, cause named: ${named}`);
giveRewards({ reward: mended ? (named ? 1 : 0.5) : 0 });
