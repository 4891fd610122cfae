import { settingsFrom } from './config';
import { runWorker } from './run';

runWorker(settingsFrom(process.env), () => console.log(JSON.stringify({ ready: true }))).catch(
  (error: unknown) => {
    console.error(error instanceof Error ? (error.stack ?? error.message) : error);
    process.exitCode = 1;
  },
);
