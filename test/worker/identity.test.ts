import { workerIdentity } from '../../worker/identity';

describe('workerIdentity', () => {
  test('is process and host', () => {
    expect(workerIdentity(7, 'build-3')).toBe('7@build-3');
  });

  test('of a long host name stays short, and hosts stay apart', () => {
    const one = workerIdentity(1, 'rollouts-worker-6d4cf56db6-x7k2p');
    const other = workerIdentity(1, 'rollouts-worker-6d4cf56db6-q9z8w');

    expect(one).toMatch(/^1@rollouts~[0-9a-f]{7}$/);
    expect(one).not.toBe(other);
  });
});
