import { giveRewards, submittedText } from './submission.mjs';

const answer = submittedText('/workspace/report.txt').trim();
console.log(`the report says ${JSON.stringify(answer.slice(0, 80))}`);
giveRewards({ reward: answer === 'north' ? 1 : 0 });
