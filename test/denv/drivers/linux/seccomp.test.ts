import { seccompProfile } from '../../../../denv/drivers/linux/seccomp';

const btrfsSubvolCreate = 0x5000940e;
const btrfsClone = 0x40049409;
const terminalSize = 0x5413;

/** What the profile says to a call, as libseccomp reads it: any rule that allows it, allows it. */
function allows(name: string, args: number[]): boolean {
  return seccompProfile('x64').syscalls.some(
    (rule) =>
      rule.action === 'SCMP_ACT_ALLOW' &&
      rule.names.includes(name) &&
      (rule.args ?? []).every(({ index, value, valueTwo, op }) => {
        const given = BigInt(args[index] ?? 0);
        if (op === 'SCMP_CMP_EQ') return given === BigInt(value);
        return (given & BigInt(value)) === BigInt(valueTwo ?? 0);
      }),
  );
}

describe('the seccomp profile', () => {
  it.each([
    ['socket', [1], true],
    ['socket', [16], true],
    ['socket', [40], false], // AF_VSOCK
    ['socket', [17], false], // AF_PACKET
    ['socket', [1 + 2 ** 32], false],
    ['clone', [0x11], true],
    ['clone', [0x10000011], false], // CLONE_NEWUSER
    ['ioctl', [0, terminalSize], true],
    ['ioctl', [0, btrfsClone], true],
    ['ioctl', [0, btrfsSubvolCreate], false],
    ['ioctl', [0, btrfsSubvolCreate + 2 ** 32], false],
    ['unshare', [0], false],
    ['clone3', [0], false],
    ['open_by_handle_at', [0], false],
    ['io_uring_setup', [0], false],
  ] as const)('%s %p: %s', (name, args, allowed) => {
    expect(allows(name, [...args])).toBe(allowed);
  });

  it('has each call in one place only, unless by argument', () => {
    const names = seccompProfile('x64')
      .syscalls.filter((rule) => !rule.args)
      .flatMap((rule) => rule.names);

    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });

  it('is of the native architecture alone, and refuses to guess for another', () => {
    expect(seccompProfile('x64').architectures).toEqual(['SCMP_ARCH_X86_64']);
    expect(() => seccompProfile('mips')).toThrow('no seccomp profile for mips');
  });
});
