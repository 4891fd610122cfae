import { CrashStack } from './crash-stack';
import { leftBehind } from './left-behind';

/** A stack of its own for the cases of a test file, which may kill its parts. It fails the file when anything of it is left afterwards. */
export function useCrashStack(): CrashStack {
  const stack = new CrashStack();
  beforeAll(() => stack.up());
  afterAll(async () => {
    try {
      await stack.close();
      expect(leftBehind(stack.home)).toEqual([]);
    } finally {
      stack.remove();
    }
  });
  return stack;
}
