import { execFileSync } from 'node:child_process';
import path from 'node:path';

const sources = path.resolve(__dirname, '../../../../denv/drivers/host');

/** Asks trees.py of a cgroup, with `open` or the walk through it failing as told. */
function askOfCgroup(failing: 'open' | 'walk', errno: string): string {
  const program = `
import errno, io, os, sys
sys.path.insert(0, sys.argv[1])
import trees
failing, number = sys.argv[2], getattr(errno, sys.argv[3])
def fail(*args, **kwargs):
    raise OSError(number, 'faked')
if failing == 'open':
    trees.open = fail
    ask = lambda: trees.standing_still('/cgroup')
else:
    os.scandir = fail
    trees.put = lambda path, text: None
    ask = lambda: trees.freeze('/cgroup') or True
try:
    print(ask())
except OSError as error:
    print(errno.errorcode[error.errno])
`;
  const argv = ['-B', '-c', program, sources, failing, errno];
  return execFileSync('/usr/bin/python3', argv, { encoding: 'utf8' }).trim();
}

describe('a cgroup that is frozen for a snapshot', () => {
  it.each(['ENOENT', 'ENODEV'])('counts as standing still when it is gone: %s', (errno) => {
    expect(askOfCgroup('open', errno)).toBe('True');
    expect(askOfCgroup('walk', errno)).toBe('True');
  });

  it.each(['EMFILE', 'EIO', 'EACCES'])('does not count as standing still after %s', (errno) => {
    expect(askOfCgroup('open', errno)).toBe(errno);
    expect(askOfCgroup('walk', errno)).toBe(errno);
  });
});
