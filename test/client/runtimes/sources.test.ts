import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { environmentsIn, otherEnvironments, sourcesBeside } from '../../../client/runtimes/sources';

describe('Python sources of HUD environments', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sources-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));
  const write = async (name: string, text: string) => {
    await writeFile(join(dir, name), text);
    return join(dir, name);
  };

  it('stand beside a taskset as env.py, or by its name', async () => {
    const env = await write('env.py', '');
    const own = await write('sums.py', '');
    await write('other.py', '');

    expect(sourcesBeside(join(dir, 'sums.json'))).toEqual([env, own]);
  });

  it('show the names of environments that stand in their text', async () => {
    const text = `a = Environment("one")\nb = hud.Environment(\n  name='two', version="1")\nEnvironment(NAME)\n`;

    expect(environmentsIn(await write('env.py', text))).toEqual(['one', 'two']);
  });

  it.each([
    ['env = Environment("sums")', 'sum', ['sums']],
    ['env = Environment("sums")', 'sums', null],
    ['sums = Environment("arithmetic")', 'sums', null],
    ['env = Environment("sums")\nmore = Environment(NAME)', 'sum', null],
    ['from elsewhere import env', 'sum', null],
  ])('say of %j asked for %j: %j', async (text, wanted, others) => {
    const file = await write('env.py', text);

    expect(otherEnvironments(file, wanted)).toEqual(others);
    expect(otherEnvironments(dir, wanted)).toEqual(others);
  });
});
