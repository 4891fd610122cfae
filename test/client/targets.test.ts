import { Target } from '../../contracts/denv';
import { targetLines } from '../../client/commands/targets';

describe('targets side by side', () => {
  const caps = { cpus: true, memoryMb: true, pids: false, diskMb: false };
  const target = Target.parse({
    name: 'linux',
    fork: 'O(1)',
    memoryFork: false,
    egressDeny: true,
    caps,
    gpu: false,
    stdio: true,
    publish: false,
    separateVerify: true,
    images: ['host', 'dir'],
    notes: ['a note'],
  });

  it('tell what each can do, and why nothing can be placed on one', () => {
    const missing = 'no engine answers';
    const docker = {
      ...target,
      name: 'docker',
      missing,
      fork: 'none' as const,
      images: [],
      notes: [],
    };

    expect(targetLines([target, docker])).toEqual([
      '                   linux      docker',
      'works              yes        -',
      'fork               O(1)       -',
      'memory fork        -          -',
      'separate verify    yes        yes',
      'egress deny        yes        yes',
      'cap cpus           yes        yes',
      'cap memory         yes        yes',
      'cap processes      -          -',
      'cap disk           -          -',
      'gpu                -          -',
      'exec               -          -',
      'stdio controllers  yes        yes',
      'publish ports      -          -',
      'attach             -          -',
      'user namespaces    -          -',
      'images             host, dir  -',
      '',
      'linux: a note',
      'docker: nothing can be placed there now: no engine answers',
    ]);
  });
});
