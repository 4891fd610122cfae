import { execFile } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { SandboxDriver } from '../../../denv/drivers/driver';
import { createLinuxDriver } from '../../../denv/drivers/linux/driver';
import { layoutOf } from '../../../denv/drivers/host/layout';
import { actionsOn, archiveOf, followUntil, newId, tarOf } from '../driver-suite';
import type { Actions } from '../driver-suite';

/** What an agent might try, and what must not come of it. */

jest.setTimeout(60_000);

const image = { kind: 'host' } as const;
let dataDir: string;
let driver: SandboxDriver;
let on: Actions;

beforeAll(async () => {
  dataDir = mkdtempSync(path.join(tmpdir(), 'denv-hostile-'));
  driver = createLinuxDriver({ dataDir, loopSizeGb: 4, imageRoots: [dataDir] });
  await driver.open();
  on = actionsOn(driver, image);
});

afterAll(async () => {
  await driver.shutdown();
  rmSync(dataDir, { recursive: true });
});

const recordDir = (id: string) => path.join(dataDir, 'run/sandboxes', id);
const initPid = (id: string): number =>
  (
    JSON.parse(readFileSync(path.join(recordDir(id), 'record.json'), 'utf8')) as {
      init: { pid: number };
    }
  ).init.pid;
const python = (code: string) => ['python3', '-c', code];

/** Host pids of everything in a sandbox. */
function hostPids(id: string): number[] {
  const { cgroup } = layoutOf(dataDir);
  const pids = (dir: string): number[] => [
    ...readFileSync(path.join(dir, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number),
    ...readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap((entry) => pids(path.join(dir, entry.name))),
  ];
  const root = ['/sys/fs/cgroup/unified', '/sys/fs/cgroup'].find((dir) =>
    existsSync(path.join(dir, cgroup, id, 'cgroup.kill')),
  );
  return root ? pids(path.join(root, cgroup, id)) : [];
}

describe('what a process in a sandbox is', () => {
  let id: string;
  beforeAll(async () => void (id = await on.newSandbox()));
  afterAll(() => driver.remove(id));

  test('it has no capability, cannot get one, and is filtered; so is its PID 1', async () => {
    const { stdout } = await on.sh(id, 'cat /proc/self/status /proc/1/status');

    const lines = stdout.split('\n');
    for (const name of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
      const values = lines.filter((line) => line.startsWith(`${name}:`));
      expect(values).toEqual([`${name}:\t0000000000000000`, `${name}:\t0000000000000000`]);
    }
    expect(lines.filter((line) => /^(NoNewPrivs|Seccomp):/.test(line))).toEqual([
      'NoNewPrivs:\t1',
      'Seccomp:\t2',
      'NoNewPrivs:\t1',
      'Seccomp:\t2',
    ]);
    expect(lines.filter((line) => line.startsWith('Uid:'))).toEqual([
      'Uid:\t1000\t1000\t1000\t1000',
      'Uid:\t65534\t65534\t65534\t65534',
    ]);
  });

  test('it sees nothing of the host but its programs', async () => {
    const script =
      'ls -A /root; cat /etc/shadow; ls /var/run/docker.sock /run/docker.sock /home; ls /etc/ssh; ' +
      'ls /var/log /mnt /srv /boot; cat /proc/cmdline; ls /sys/fs/cgroup; touch /usr/x; touch /etc/x';

    const { stdout, stderr } = await on.sh(id, script);

    expect(stdout).toBe('/home:\nagent\n');
    expect(stderr).toMatch(/\/root.*Permission denied/);
    expect(stderr).toMatch(/\/etc\/shadow: No such file/);
    expect(stderr).toMatch(/\/usr\/x.*Read-only file system/);
    expect(stderr).toMatch(/\/etc\/x.*Permission denied/);
    const processes = await on.sh(id, 'ls -d /proc/[0-9]* | wc -l');
    expect(Number(processes.stdout)).toBeLessThan(10);
  });

  test.each([
    ['a vsock socket', 'import socket; socket.socket(40, socket.SOCK_STREAM)'],
    ['a raw socket', 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'],
    ['a packet socket', 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'],
    ['a crypto socket', 'import socket; socket.socket(38, socket.SOCK_SEQPACKET)'],
    ['a vsock socket by a longer number', libc('syscall(41, ctypes.c_long(40 + (1 << 32)), 1, 0)')],
    ['a user namespace', libc('unshare(0x10000000)')],
    ['a user namespace by clone', libc('syscall(56, 0x10000011, 0, 0, 0, 0)')],
    ['a user namespace by clone3', libc('syscall(435, (ctypes.c_uint64 * 8)(0x10000000), 64)')],
    ['a network namespace', libc('unshare(0x40000000)')],
    ['a mount', libc('mount(b"none", b"/tmp", b"tmpfs", 0, None)')],
    ['a keyring', libc('syscall(250, 0, -3, 1)')],
    ['a bpf program', libc('syscall(321, 0, 0, 0)')],
    ['an io_uring', libc('syscall(425, 4, (ctypes.c_uint64 * 15)())')],
    ['a userfaultfd', libc('syscall(323, 1)')],
    ['a performance event', libc('syscall(298, 0, 0, -1, -1, 0)')],
    ['a file by handle', libc('syscall(304, 3, 0, 0)')],
    ['a subvolume, which no snapshot would hold', subvolume()],
    ['a device', 'import os; os.mknod("/tmp/disk", 0o60644, os.makedev(7, 0))'],
  ])('it cannot make %s', async (_title, code) => {
    const { end, stderr } = await on.exec(id, python(code));

    expect(end).toEqual({ kind: 'exited', exitCode: 1 });
    expect(stderr).toMatch(/not permitted|not implemented|not supported|Permission denied/);
  });

  test('the unshare command is refused', async () => {
    const { end, stderr } = await on.exec(id, ['unshare', '-Ur', 'id']);

    expect(end).not.toEqual({ kind: 'exited', exitCode: 0 });
    expect(stderr).toContain('Operation not permitted');
  });

  test('ordinary work goes on: node, python, git, sqlite, threads, unix and loopback sockets', async () => {
    const script = `set -e
      node -e 'require("fs").writeFileSync("a", "1"); new (require("worker_threads").Worker)("0", { eval: true })'
      python3 -c 'import sqlite3, threading, subprocess, multiprocessing
c = sqlite3.connect("db"); c.execute("create table t (x)"); c.execute("insert into t values (1)"); c.commit()
threading.Thread(target=print).start(); subprocess.run(["true"], check=True); multiprocessing.Lock()'
      git init -q . && git add a && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline | wc -l
      node -e 'const n = require("net"); const s = n.createServer((c) => c.end("hi")).listen("/tmp/s", () => n.connect("/tmp/s").on("data", (d) => { console.log(String(d)); s.close(); }))'
      node -e 'const n = require("net"); const s = n.createServer((c) => c.end("lo")).listen(80, () => n.connect(80).on("data", (d) => { console.log(String(d)); s.close(); }))'
      cp --reflink=auto a b && bash -c 'echo $((6 * 7))'`;

    const { end, stdout, stderr } = await on.sh(id, script);

    expect({ end, stdout: stdout.trim().split(/\s+/), stderr }).toEqual({
      end: { kind: 'exited', exitCode: 0 },
      stdout: ['1', 'hi', 'lo', '42'],
      stderr: '',
    });
  });

  test('it cannot signal or trace PID 1', async () => {
    const code = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for what in (lambda: os.kill(1, 9), lambda: os.kill(1, 0), lambda: open("/proc/1/mem"), lambda: os.listdir("/proc/1/fd"), lambda: os.readlink("/proc/1/exe")):
    try: what(); print("could")
    except OSError as error: print(error.errno)
print(libc.ptrace(16, 1, 0, 0), ctypes.get_errno())`;

    const { stdout } = await on.exec(id, python(code));

    expect(stdout).toBe('1\n1\n13\n13\n13\n-1 1\n');
    expect(await driver.state(id)).toMatchObject({ state: 'running' });
  });

  test('no process but its own and PID 1 is in its sight, so no helper can be signalled', async () => {
    const { handle } = await on.start(id, ['sh', '-c', 'echo up; exec cat'], { stdin: 'pipe' });
    await followUntil(handle, 0, 'up');
    const { stdout } = await on.sh(
      id,
      'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline; echo; done',
    );

    expect(stdout).not.toMatch(/conmon|runc|portd|python3/);
    await handle.kill();
    handle.release();
  });

  test('a set-id file gives it nothing', async () => {
    const bin = readFileSync('/usr/bin/id');
    const tar = await tarOf([[{ name: 'id', mode: 0o6755 }, bin as unknown as string]]);
    const other = await on.newSandbox([archiveOf('/opt/suid', tar)]);
    const file = path.join(dataDir, 'fs/sandboxes', other, 'opt/suid/id');
    chmodSync(file, 0o6755);

    const { stdout } = await on.sh(other, '/opt/suid/id; ls -l /opt/suid/id; su -c id 2>&1');

    expect(stdout).toContain('-rwsr-sr-x 1 root root');
    expect(stdout).toContain('uid=1000(agent) gid=1000(agent) groups=1000(agent)');
    expect(stdout).not.toContain('uid=0');
    expect(stdout).not.toContain('euid=0');
    await driver.remove(other);
  });

  test('orphans are reaped', async () => {
    await on.sh(id, 'for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c "sleep 0.01 &" &); done; sleep 0.3');

    const { stdout } = await on.sh(id, 'cat /proc/[0-9]*/stat | grep -c ") Z "');

    expect(stdout).toBe('0\n');
  });
});

describe('the network', () => {
  test('nothing of the host answers, on any address', async () => {
    const reached: string[] = [];
    const listener = net.createServer((socket) => {
      reached.push(`${socket.remoteAddress}`);
      socket.end('host');
    });
    await new Promise<void>((resolve) => listener.listen(0, '::', resolve));
    const { port } = listener.address() as net.AddressInfo;
    const addresses = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .map(({ address }) => address);
    const id = await on.newSandbox();
    const code = `
import socket
for address in ${JSON.stringify(['127.0.0.1', '::1', '8.8.8.8', '169.254.169.254', ...addresses])}:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family); s.settimeout(3)
    try: s.connect((address, ${port})); print("REACHED", address)
    except OSError as error: print(error.errno)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: u.sendto(b"x", ("8.8.8.8", 53)); print("SENT")
except OSError as error: print(error.errno)`;

    const { stdout } = await on.exec(id, python(code));

    const [own, ownSix, far, ...others] = stdout.trim().split('\n');
    expect([own, ownSix, far]).toEqual(['111', '111', '101']); // refused by its own lo; unreachable
    expect(others.join(' ')).not.toMatch(/REACHED|SENT/);
    expect(reached).toEqual([]);
    await driver.remove(id);
    await new Promise((resolve) => listener.close(resolve));
  });

  test('a published port answers root, and refuses another user, even one that hangs up at once', async () => {
    const id = await on.newSandbox();
    const serve =
      'let n=0; require("http").createServer((q,s)=>{n++; s.end("private "+n)}).listen(8080,()=>console.log("up"))';
    const { handle } = await on.start(id, ['node', '-e', serve]);
    await followUntil(handle, 0, 'up');
    const port = await driver.publish(id, 8080, null);
    const ask = `const s=require("net").connect(${port},"127.0.0.1",()=>s.write("GET / HTTP/1.0\\r\\n\\r\\n"));
      let t=""; s.on("data",(d)=>t+=d).on("error",(e)=>t+=e.code).on("close",()=>console.log(t))`;
    const hangUp = `for(let i=0;i<50;i++){const s=require("net").connect(${port},"127.0.0.1",()=>{s.write("GET / HTTP/1.0\\r\\n\\r\\n");s.resetAndDestroy===0||s.end()});s.on("error",()=>{})}`;
    // A node that another user can execute: the one that runs this test may lie in a closed directory.
    const node = '/tmp/denv-hostile-node';
    await promisify(execFile)('cp', [process.execPath, node]);
    const as = async (uid: number, code: string) =>
      (
        await promisify(execFile)('setpriv', [
          `--reuid=${uid}`,
          `--regid=${uid}`,
          '--clear-groups',
          node,
          '-e',
          code,
        ])
      ).stdout;
    try {
      await as(4321, hangUp);
      const refused = await as(4321, ask);
      const answered = await as(0, ask);

      expect(refused).not.toContain('private');
      expect(answered).toContain('private 1');
    } finally {
      rmSync(node);
      handle.release();
      await driver.remove(id);
    }
  });

  test('an answer arrives after the client has closed its side', async () => {
    const id = await on.newSandbox();
    const serve =
      'require("net").createServer({allowHalfOpen:true},(s)=>{let t="";s.on("data",(d)=>t+=d);s.on("end",()=>setTimeout(()=>s.end("had "+t),700))}).listen(8080,()=>console.log("up"))';
    const { handle } = await on.start(id, ['node', '-e', serve]);
    await followUntil(handle, 0, 'up');
    const hostPort = await driver.publish(id, 8080, null);

    for (const socket of [
      await driver.connect(id, 8080),
      net.connect({ port: hostPort, host: '127.0.0.1' }),
    ]) {
      const answer = new Promise<string>((resolve) => {
        let text = '';
        socket.on('data', (data) => (text += data.toString())).on('close', () => resolve(text));
      });
      socket.end('words');

      expect(await answer).toBe('had words');
    }
    handle.release();
    await driver.remove(id);
  });

  test('when the helper is killed, connections and published ports come back', async () => {
    const id = await on.newSandbox();
    const serve =
      'require("net").createServer((s)=>s.end("here")).listen(8080,()=>console.log("up"))';
    const { handle } = await on.start(id, ['node', '-e', serve]);
    await followUntil(handle, 0, 'up');
    const hostPort = await driver.publish(id, 8080, null);
    const { helperSocket } = layoutOf(dataDir);

    process.kill(Number(readFileSync(`${helperSocket}.lock`, 'utf8')), 'SIGKILL');

    const socket = await driver.connect(id, 8080);
    expect(await textOf(socket)).toBe('here');
    const again = net.connect({ port: hostPort, host: '127.0.0.1' });
    expect(await textOf(again)).toBe('here');
    handle.release();
    await driver.remove(id);
    const after = net.connect({ port: hostPort, host: '127.0.0.1' });
    expect(await textOf(after)).toBe('');
  });
});

describe('a verifier', () => {
  test('may read everything that it is given, and nothing else', async () => {
    const dir = mkdtempSync(path.join(dataDir, 'given-'));
    writeFileSync(path.join(dir, 'private'), 'private\n', { mode: 0o600 });
    writeFileSync(path.join(dir, 'program'), '#!/bin/sh\necho ran\n', { mode: 0o755 });
    const { base } = await driver.prepareBase(image, []);
    const script = `grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; id -u; cat /given/private
      /given/program 2>&1; echo x 2>&1 > /given/private; echo x 2>&1 > /etc/passwd; cat /proc/net/route | wc -l
      python3 -c '${libc('syscall(304, 3, 0, 0)').replaceAll("'", '"')}' 2>&1 | tail -1`;

    const { outputTail } = await driver.runContainer({
      containerId: newId('v'),
      base,
      image,
      argv: ['sh', '-c', script],
      uid: 2000,
      env: {},
      timeoutS: 30,
      caps: { cpus: 1, memoryMb: 128, pids: 32 },
      readAll: true,
      mounts: [{ source: dir, target: '/given', readOnly: true }],
    });

    const one = '0000000000000004'; // CAP_DAC_READ_SEARCH
    expect(outputTail.split('\n')).toEqual([
      ...['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => `${name}:\t${one}`),
      'NoNewPrivs:\t1',
      'Seccomp:\t2',
      '2000',
      'private',
      expect.stringContaining('/given/program: Permission denied'),
      expect.stringContaining('Read-only file system'),
      expect.stringContaining('Permission denied'),
      '1',
      'PermissionError: [Errno 1] Operation not permitted',
      '',
    ]);
  });
});

describe('limits', () => {
  test('a fork bomb stays in its limit, its neighbour works, and its kill leaves nothing', async () => {
    const [bombed, neighbour] = [await on.newSandbox(), await on.newSandbox()];
    const bomb =
      'import os\nprint("up", flush=True)\nwhile True:\n try: os.fork()\n except OSError: pass';
    const { handle } = await on.start(bombed, python(bomb));
    await followUntil(handle, 0, 'up');
    await until(() => hostPids(bombed).length >= 60);

    expect(await on.sh(neighbour, 'echo fine')).toMatchObject({ stdout: 'fine\n' });
    expect(hostPids(bombed).length).toBeLessThanOrEqual(64);
    await handle.kill();

    expect(await handle.ended()).toEqual({ kind: 'killed' });
    expect(hostPids(bombed)).toEqual([initPid(bombed), expect.any(Number)]);
    expect(await on.sh(bombed, 'echo again')).toMatchObject({ stdout: 'again\n' });
    for (const id of [bombed, neighbour]) await driver.remove(id);
  });

  test('an exec into a bombed sandbox can be killed, and so can the sandbox', async () => {
    const id = await on.newSandbox();
    const bomb =
      'import os\nprint("up", flush=True)\nwhile True:\n try: os.fork()\n except OSError: pass';
    const { handle } = await on.start(id, python(bomb));
    await followUntil(handle, 0, 'up');
    await until(() => hostPids(id).length >= 60);
    const late = await on.start(id, ['true']);

    await late.handle.kill();
    await driver.remove(id);

    expect(await driver.state(id)).toEqual({ state: 'absent' });
    expect(hostPids(id)).toEqual([]);
    handle.release();
    late.handle.release();
  });

  test('a memory hog is killed, is counted, and its sandbox and neighbour live on', async () => {
    const hog = await on.newSandbox([], { memoryMb: 128 });
    const neighbour = await on.newSandbox();

    const { end } = await on.exec(hog, python('x = []\nwhile True: x.append(bytearray(1 << 20))'));

    expect(end).toEqual({ kind: 'exited', exitCode: 137 });
    expect(await driver.state(hog)).toEqual({ state: 'running', oomKills: 1 });
    expect(await on.sh(neighbour, 'echo fine')).toMatchObject({ stdout: 'fine\n' });
    await driver.stop(hog);
    expect(await driver.state(hog)).toMatchObject({ state: 'stopped', oomKills: 1 });
    for (const id of [hog, neighbour]) await driver.remove(id);
  });

  test('a process in a session of its own does not outlive the kill of its exec', async () => {
    const id = await on.newSandbox();
    const script =
      'import os\nfor i in range(20):\n if os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: os.execvp("sleep", ["sleep", "300"])\n  os._exit(0)\nprint("up", flush=True)\nimport time; time.sleep(300)';
    const { handle } = await on.start(id, python(script));
    await followUntil(handle, 0, 'up');

    await handle.kill();

    expect(hostPids(id)).toHaveLength(2);
    expect(await on.sh(id, 'pgrep -c sleep')).toMatchObject({ stdout: '1\n' });
    await driver.remove(id);
  });

  test('an exec that kills its own holder from outside is lost, and nothing of it is left', async () => {
    const id = await on.newSandbox();
    const { execId, handle } = await on.start(id, ['sh', '-c', 'trap "" PIPE; sleep 300']);
    const holder = Number(
      readFileSync(path.join(recordDir(id), 'execs', execId, 'holder.pid'), 'utf8'),
    );
    await until(() => hostPids(id).length >= 3);

    process.kill(holder, 'SIGKILL');

    expect(await handle.ended()).toEqual({ kind: 'lost' });
    expect(hostPids(id)).toHaveLength(2);
    await driver.remove(id);
  });

  test('a sandbox whose first process is gone is stopped', async () => {
    const id = await on.newSandbox();
    const { handle } = await on.start(id, ['sleep', '300']);

    process.kill(initPid(id), 'SIGKILL');

    expect(await handle.ended()).toEqual({ kind: 'killed' });

    expect(await driver.state(id)).toMatchObject({ state: 'stopped', hostRestart: false });
    await driver.remove(id);
  });
});

describe('a crash in the middle', () => {
  test('what was left frozen is thawed by the next open', async () => {
    const id = await on.newSandbox();
    const { cgroup } = layoutOf(dataDir);
    const file = ['/sys/fs/cgroup/unified', '/sys/fs/cgroup']
      .map((dir) => path.join(dir, cgroup, id, 'cgroup.freeze'))
      .find(existsSync);
    writeFileSync(file as string, '1');

    const next = createLinuxDriver({ dataDir });
    await next.open();
    await next.close();

    expect(await on.sh(id, 'echo thawed')).toMatchObject({ stdout: 'thawed\n' });
    await driver.remove(id);
  });

  test('a snapshot is taken although its helper dies over it, and nothing is left frozen', async () => {
    const id = await on.newSandbox();
    await on.sh(id, 'head -c 60M /dev/urandom > big; echo data > data');
    const versionId = newId('ver');

    const taken = driver.snapshot(id, versionId, { stop: false });
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.kill(Number(readFileSync(`${layoutOf(dataDir).helperSocket}.lock`, 'utf8')), 'SIGKILL');
    await taken;

    expect(await on.sh(id, 'cat data')).toMatchObject({ stdout: 'data\n' });
    const file = path.join(driver.versionPath(versionId), 'workspace/big');
    expect(readFileSync(file)).toHaveLength(60 * 2 ** 20);
    await driver.remove(id);
    await driver.removeVersion(versionId);
  });

  test('an exec whose input broke off is lost, not ended with half of it', async () => {
    const id = await on.newSandbox();
    const stdin = Buffer.alloc(4_000_000, 'x');
    const { execId, handle } = await on.start(id, ['sh', '-c', 'sleep 0.5; wc -c'], { stdin });
    await until(() => existsSync(path.join(recordDir(id), 'execs', execId, 'feeding')));

    process.kill(Number(readFileSync(`${layoutOf(dataDir).helperSocket}.lock`, 'utf8')), 'SIGKILL');

    expect(await handle.ended()).toEqual({ kind: 'lost' });
    expect(hostPids(id)).toHaveLength(2);
    expect(await on.sh(id, 'cat', { stdin: Buffer.from('again') })).toMatchObject({
      stdout: 'again',
    });
    await driver.remove(id);
  });

  test('opening again mounts and attaches nothing twice', async () => {
    const again = createLinuxDriver({ dataDir });
    await again.open();
    await again.close();

    const mounts = readFileSync('/proc/self/mountinfo', 'utf8');
    expect(mounts.split('\n').filter((line) => line.includes(` ${dataDir}/fs `))).toHaveLength(1);
    const backing = readdirSync('/sys/block')
      .map((name) => path.join('/sys/block', name, 'loop/backing_file'))
      .filter((name) => existsSync(name) && readFileSync(name, 'utf8').startsWith(dataDir));
    expect(backing).toHaveLength(1);
  });
});

describe('a snapshot of a busy sandbox', () => {
  test('holds one instant of all its execs', async () => {
    const id = await on.newSandbox();
    // Two execs take turns: whatever the instant, the files differ by one at most.
    const first =
      'i=0; while :; do i=$((i+1)); echo $i > a.tmp; mv a.tmp a; until [ "$(cat b 2>/dev/null)" = $i ]; do :; done; done';
    const second = 'while :; do n=$(cat a 2>/dev/null); echo $n > b.tmp; mv b.tmp b; done';
    const execs = [
      await on.start(id, ['sh', '-c', first]),
      await on.start(id, ['sh', '-c', second]),
    ];
    await on.sh(id, 'until [ -s a ] && [ -s b ] && [ "$(cat b)" -gt 3 ]; do :; done');

    for (let round = 0; round < 5; round += 1) {
      const versionId = newId('ver');
      await driver.snapshot(id, versionId, { stop: false });
      const read = (name: string) =>
        Number(readFileSync(path.join(driver.versionPath(versionId), 'workspace', name), 'utf8'));

      expect(read('a') - read('b')).toBeGreaterThanOrEqual(0);
      expect(read('a') - read('b')).toBeLessThanOrEqual(1);
      await driver.removeVersion(versionId);
    }
    for (const { handle } of execs) handle.release();
    await driver.remove(id);
  });
});

function libc(call: string): string {
  return `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
pid = libc.${call}
if pid == 0: os._exit(0)
if pid < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))`;
}

function subvolume(): string {
  return `import fcntl, os
fd = os.open("/workspace", os.O_RDONLY)
fcntl.ioctl(fd, 0x5000940e, bytearray(8) + bytearray(b"hidden") + bytearray(4082))`;
}

function textOf(socket: net.Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (data) => (text += data.toString()));
    socket.on('error', () => undefined).on('close', () => resolve(text));
  });
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
