import { repeated, unharmed } from './crash/expected';
import { rolloutIdOf } from './crash-stack';
import { done, exec, httpController, work } from './crash-tasks';
import { useCrashStack } from './use-crash-stack';

/** The shortest way through all parts: the command line, Temporal, the worker, the denv server, sandboxes, a model and a verifier. */

const stack = useCrashStack();

it('a rollout by the built-in shell and one by a controller over HTTP are scored', async () => {
  const batch = await stack.start('smoke', [
    { id: 'exec', effects: 2, replies: [exec, exec, done] },
    { id: 'http', environment: httpController, effects: 2, replies: [work, work, done] },
  ]);

  const results = await stack.finish(batch);

  expect(results).toMatchObject({
    exec: unharmed(rolloutIdOf('smoke', 'exec'), 2, 3),
    http: unharmed(rolloutIdOf('smoke', 'http'), 2, 3),
  });
  expect(repeated(batch, results)).toBe(0);
});
