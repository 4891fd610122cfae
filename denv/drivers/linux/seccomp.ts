/**
 * The system calls of an unprivileged process: an allow-list for the native architecture only (32-bit `socketcall` would dodge
 * the filter on address families). What is not listed answers ENOSYS, so programs fall back as on an older kernel; what is
 * privileged or makes namespaces answers EPERM.
 */

interface Rule {
  names: string[];
  action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO';
  errnoRet?: number;
  args?: { index: number; value: number; valueTwo?: number; op: string }[];
}

export interface SeccompProfile {
  defaultAction: 'SCMP_ACT_ERRNO';
  defaultErrnoRet: number;
  architectures: string[];
  syscalls: Rule[];
}

const EPERM = 1;
const ENOSYS = 38;

const words = (text: string): string[] => text.trim().split(/\s+/);

const files = words(`
  access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64 fallocate
  fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat
  fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr lchown lgetxattr link linkat listxattr llistxattr
  lremovexattr lseek lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64
  pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice
  stat statfs statx symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes
  vmsplice write writev inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
`);
const memory = words(`
  brk cachestat get_mempolicy madvise mbind memfd_create membarrier mincore mlock mlock2 mlockall mmap mprotect mremap mseal
  msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise remap_file_pages set_mempolicy
`);
const processes = words(`
  alarm arch_prctl capget capset execve execveat exit exit_group fork getcpu getegid geteuid getgid getgroups getitimer getpgid
  getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set kill
  pause pidfd_open pidfd_send_signal prctl prlimit64 ptrace restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask
  rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
  sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
  sched_setparam sched_setscheduler sched_yield seccomp set_robust_list get_robust_list set_tid_address setfsgid setfsuid setgid
  setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack signalfd
  signalfd4 sysinfo tgkill times tkill uname vfork wait4 waitid landlock_add_rule landlock_create_ruleset landlock_restrict_self
`);
const waiting = words(`
  clock_getres clock_gettime clock_nanosleep epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd
  eventfd2 futex futex_requeue futex_wait futex_waitv futex_wake getrandom gettimeofday io_cancel io_destroy io_getevents
  io_pgetevents io_setup io_submit nanosleep poll ppoll pselect6 select time timer_create timer_delete timer_getoverrun
  timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime
`);
const communication = words(`
  accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify mq_open mq_timedreceive
  mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd pipe pipe2 recvfrom recvmmsg recvmsg semctl semget semop semtimedop sendmmsg
  sendmsg sendto setsockopt shmat shmctl shmdt shmget shutdown
`);
const refused = words(`
  acct add_key bpf chroot delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter
  io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mount mount_setattr
  move_mount name_to_handle_at open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_vm_readv
  process_vm_writev quotactl quotactl_fd reboot request_key setdomainname sethostname setns settimeofday clock_settime swapoff
  swapon syslog umount umount2 unshare userfaultfd vhangup
`);

// CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
const newNamespaces = 0x7e020000;
// AF_VSOCK is not scoped by network namespaces and leads to the hypervisor; raw, packet and alg sockets have no use here.
const addressFamilies = { unix: 1, inet: 2, inet6: 10, netlink: 16 };
const personalities = [0x0, 0x8, 0x20000, 0x20008, 0xffffffff];

// An owner may make subvolumes in its own directories on btrfs, and a snapshot leaves those out: a way to have files that a
// fork or a verifier does not see. So of the btrfs requests (type byte 0x94) only cloning is allowed; every other type is,
// said as: one of its eight bits differs from 0x94.
const btrfsType = 0x94;
const cloneRequests = [0x40049409, 0x4020940d, 0xc0189436];

const equal = (index: number, value: number) => ({ index, value, op: 'SCMP_CMP_EQ' });
const masked = (index: number, mask: number, value: number) => ({
  index,
  value: mask,
  valueTwo: value,
  op: 'SCMP_CMP_MASKED_EQ',
});
const allow = (names: string[], ...args: NonNullable<Rule['args']>): Rule => ({
  names,
  action: 'SCMP_ACT_ALLOW',
  ...(args.length > 0 ? { args } : {}),
});

function ioctlRules(): Rule[] {
  const otherTypes = [0, 1, 2, 3, 4, 5, 6, 7].map((bit) => {
    const mask = 1 << (8 + bit);
    const differs = btrfsType & (1 << bit) ? 0 : mask;
    return allow(['ioctl'], masked(1, mask, differs));
  });
  return [...otherTypes, ...cloneRequests.map((request) => allow(['ioctl'], equal(1, request)))];
}

/** @throws Error on an architecture that the table was not made for */
export function seccompProfile(arch: string = process.arch): SeccompProfile {
  const native = { x64: 'SCMP_ARCH_X86_64', arm64: 'SCMP_ARCH_AARCH64' }[arch];
  if (!native) throw new Error(`no seccomp profile for ${arch}: only x64 and arm64 have one`);
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    architectures: [native],
    syscalls: [
      allow([...files, ...memory, ...processes, ...waiting, ...communication]),
      allow(['clone'], masked(0, newNamespaces, 0)),
      ...Object.values(addressFamilies).map((family) => allow(['socket'], equal(0, family))),
      allow(['socketpair'], equal(0, addressFamilies.unix)),
      ...personalities.map((value) => allow(['personality'], equal(0, value))),
      ...ioctlRules(),
      { names: refused, action: 'SCMP_ACT_ERRNO', errnoRet: EPERM },
      // Its flags are in memory, where a filter cannot look; libc falls back to clone.
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
    ],
  };
}
