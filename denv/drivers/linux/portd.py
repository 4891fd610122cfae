"""The host helper of the linux driver: what Node cannot do itself, in one small process for all sandboxes.

 - tree work: btrfs ioctls, and the freeze-snapshot-thaw sequence, which here waits for nobody's event loop
 - sockets inside a sandbox's network namespace: a socket belongs to the namespace it is created in, so each connection
   enters it, makes the socket and comes back
 - the finite input of execs, which conmon takes only over a kind of socket that Node has not
 - published ports: loopback listeners that refuse peers of another user

Usage: portd.py SOCKET VERSION UID[,UID...].  Control: a root-only unix socket, one JSON line a request, one a reply.
It outlives the server and is adopted by the next one; a lock file beside the socket keeps it alone.
"""

import asyncio
import ctypes
import errno
import fcntl
import json
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
SUBVOL_CREATE = 0x5000940E
SNAP_DESTROY = 0x5000940F
SNAP_CREATE_V2 = 0x50009417
SUBVOL_SETFLAGS = 0x4008941A
READ_ONLY = 2
FREEZE_LIMIT_S = 20
ATTACH_TRIES = 2000

allowed_uids = set()
host_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
published = {}
jobs = set()
feeds = {}
trees = ThreadPoolExecutor(max_workers=8)


class Refused(Exception):
    """An answer for the caller, with a word it can branch on."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


# Trees


def check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def open_dir(path):
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)


def named_ioctl(path, request, before_name, what):
    """An ioctl on the parent directory whose argument is `before_name` and then the last component of `path`."""
    parent, name = os.path.split(path)
    argument = ctypes.create_string_buffer(before_name + name.encode(), 4096)
    fd = open_dir(parent)
    try:
        check(libc.ioctl(fd, ctypes.c_ulong(request), argument), f"{what} {path}")
    finally:
        os.close(fd)


def subvolume(path):
    named_ioctl(path, SUBVOL_CREATE, bytes(8), "create subvolume")


def delete(path):
    try:
        named_ioctl(path, SNAP_DESTROY, bytes(8), "delete subvolume")
    except FileNotFoundError:
        pass


def take_snapshot(source_fd, target, read_only):
    flags = READ_ONLY if read_only else 0
    head = source_fd.to_bytes(8, "little") + bytes(8) + flags.to_bytes(8, "little") + bytes(32)
    named_ioctl(target, SNAP_CREATE_V2, head, "snapshot to")


def set_read_only(path):
    fd = open_dir(path)
    try:
        flags = ctypes.c_uint64(READ_ONLY)
        check(libc.ioctl(fd, ctypes.c_ulong(SUBVOL_SETFLAGS), ctypes.byref(flags)), f"make read-only {path}")
    finally:
        os.close(fd)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError:
        return ""


def put(path, text):
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def standing_still(cgroup):
    events = read(cgroup + "/cgroup.events")
    return "frozen 1" in events or "populated 0" in events or events == ""


def wait_until(condition, what):
    deadline = time.monotonic() + FREEZE_LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Refused("timeout", f"{what} took more than {FREEZE_LIMIT_S} s")
        time.sleep(0.0003)


def freeze(cgroup):
    """A parent reports itself frozen before its children are, so every descendant is asked."""
    put(cgroup + "/cgroup.freeze", "1")
    wait_until(lambda: all(standing_still(d) for d, _, _ in os.walk(cgroup)), f"freezing {cgroup}")


def snapshot(source, target, readOnly, flush, cgroup, kill):
    """Flush, freeze, snapshot, then thaw or kill. Whatever fails in between, the sandbox does not stay frozen."""
    fd = open_dir(source)
    flush_ms = paused_ms = None
    try:
        if flush:
            begin = time.monotonic()
            check(libc.syncfs(fd), f"syncfs {source}")
            flush_ms = (time.monotonic() - begin) * 1000
        if cgroup is None:
            take_snapshot(fd, target, readOnly)
        else:
            begin = time.monotonic()
            killed = False
            try:
                freeze(cgroup)
                take_snapshot(fd, target, readOnly)
                if kill:
                    put(cgroup + "/cgroup.kill", "1")
                    killed = True
            finally:
                try:
                    put(cgroup + "/cgroup.freeze", "0")
                except FileNotFoundError:
                    pass
            if killed:
                wait_until(lambda: "populated 1" not in read(cgroup + "/cgroup.events"), f"killing {cgroup}")
            paused_ms = (time.monotonic() - begin) * 1000
    finally:
        os.close(fd)
    return {"flushMs": flush_ms, "pausedMs": paused_ms}


# Sockets


def start_time(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def socket_inside(pid, start, family):
    """A socket in the network namespace of one process, which must still be the one that was meant."""
    try:
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        raise Refused("gone", f"process {pid} is gone")
    try:
        if start_time(pid) != start:
            raise Refused("gone", f"process {pid} is another one now")
        check(libc.setns(fd, CLONE_NEWNET), "setns")
        try:
            return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        finally:
            if libc.setns(host_namespace, CLONE_NEWNET):
                os._exit(70)  # Going on in a sandbox's namespace would be worse than dying.
    except OSError as error:
        raise Refused("gone", str(error))
    finally:
        os.close(fd)


async def connect_inside(pid, start, port):
    last = None
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        sock = socket_inside(pid, start, family)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(sock, (address, port)), 5)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return await asyncio.open_connection(sock=sock)
        except (OSError, asyncio.TimeoutError) as error:
            sock.close()
            last = error
    raise Refused("refused", f"nothing answers on port {port}: {last}")


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def splice(reader, writer, inner_reader, inner_writer):
    """Both ways at once; the end of one way leaves the other open."""
    try:
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
    finally:
        inner_writer.close()
        writer.close()


def hex_address(family, address, port):
    words = socket.inet_pton(family, address)
    swapped = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
    return f"{swapped.hex().upper()}:{port:04X}"


def peer_uid(peer, local):
    """Owner of the other end of a loopback connection, from the kernel's table; None when there is none to be seen."""
    wanted = {
        "/proc/self/net/tcp": (hex_address(socket.AF_INET, *peer), hex_address(socket.AF_INET, *local)),
        "/proc/self/net/tcp6": (
            hex_address(socket.AF_INET6, "::ffff:" + peer[0], peer[1]),
            hex_address(socket.AF_INET6, "::ffff:" + local[0], local[1]),
        ),
    }
    for table, ends in wanted.items():
        with open(table) as file:
            for line in file:
                fields = line.split()
                # A closed socket is listed with uid 0 and inode 0: only one that a process holds tells who it is.
                if (fields[1], fields[2]) == ends and fields[9] != "0":
                    return int(fields[7])
    return None


def listener(entry):
    async def accept(reader, writer):
        try:
            peer, local = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
            if peer_uid(peer[:2], local[:2]) not in allowed_uids:
                writer.transport.abort()
                return
            inner = await connect_inside(entry["pid"], entry["start"], entry["port"])
        except (Refused, OSError):
            writer.transport.abort()
            return
        await splice(reader, writer, *inner)

    return accept


async def publish(id, port, pid, start, hostPort):
    key = (id, port)
    old = published.get(key)
    if old and (old["pid"], old["start"]) == (pid, start) and hostPort in (None, old["hostPort"]):
        return {"hostPort": old["hostPort"]}
    if old:
        published.pop(key)["server"].close()
    entry = {"pid": pid, "start": start, "port": port}
    try:
        server = await asyncio.start_server(listener(entry), "127.0.0.1", hostPort or 0, backlog=512)
    except OSError as error:
        raise Refused("port_taken", f"cannot listen on 127.0.0.1:{hostPort}: {error}")
    entry["server"] = server
    entry["hostPort"] = server.sockets[0].getsockname()[1]
    published[key] = entry
    return {"hostPort": entry["hostPort"]}


def unpublish(id):
    for key in [key for key in published if key[0] == id]:
        published.pop(key)["server"].close()


# Input of execs


async def attach(directory):
    """A connection to conmon's attach socket, reached through the directory since a socket's path must be short."""
    loop = asyncio.get_running_loop()
    place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(ATTACH_TRIES):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            try:
                await loop.sock_connect(sock, f"/proc/self/fd/{place}/attach")
                return sock
            except (FileNotFoundError, ConnectionRefusedError):
                sock.close()
                if not holder_lives(directory):
                    return None
                await asyncio.sleep(0.005)
    finally:
        os.close(place)
    return None


def holder_lives(directory):
    pid = read(directory + "/holder.pid").strip()
    return pid != "" and os.path.exists("/proc/" + pid)


async def discard(sock):
    """conmon sends all output to whoever is attached, and the process would wait for one that does not read."""
    try:
        while await asyncio.get_running_loop().sock_recv(sock, 65536):
            pass
    except OSError:
        pass


async def feed(directory):
    """Gives an exec its finite input, then the end of it: conmon closes stdin when the attached client has no more."""
    sock = await attach(directory)
    if sock is None:
        return
    discarding = asyncio.create_task(discard(sock))
    try:
        mark(directory + "/feeding", str(os.getpid()))
        await send_input(sock, directory + "/stdin")
        mark(directory + "/fed", "")
        await discarding
    except OSError:
        discarding.cancel()
        abandon(directory)
    finally:
        sock.close()


def abandon(directory):
    """Names no helper as the one that feeds it, so an exec that still runs counts as one whose input broke off."""
    try:
        mark(directory + "/feeding", "-1")
    except OSError:
        pass  # The exec was removed meanwhile.


async def send_input(sock, path):
    try:
        with open(path, "rb") as file:
            while chunk := file.read(8192):
                await asyncio.get_running_loop().sock_sendall(sock, chunk)
        sock.shutdown(socket.SHUT_WR)
    except ConnectionError:
        pass  # It ended without reading all of its input, as it may.
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


def mark(path, text):
    with open(path, "w") as file:
        file.write(text)


def start_feed(directory):
    # Begun by a helper that died, it cannot be gone on with: what is missing of the input is not known.
    if directory in feeds or os.path.exists(directory + "/feeding"):
        return
    task = asyncio.create_task(feed(directory))
    feeds[directory] = task
    task.add_done_callback(lambda _: feeds.pop(directory, None))


# Control


async def in_thread(work, *args):
    job = asyncio.get_running_loop().run_in_executor(trees, work, *args)
    jobs.add(job)
    job.add_done_callback(jobs.discard)
    return await asyncio.shield(job)


async def answer(op, args):
    if op == "hello":
        return {"version": sys.argv[2], "pid": os.getpid()}
    if op == "drain":
        while jobs:
            await asyncio.wait(set(jobs))
        return {}
    if op == "subvolume":
        return await in_thread(subvolume, args["path"])
    if op == "delete":
        return await in_thread(delete, args["path"])
    if op == "readOnly":
        return await in_thread(set_read_only, args["path"])
    if op == "snapshot":
        names = ("source", "target", "readOnly", "flush", "cgroup", "kill")
        return await in_thread(snapshot, *(args[name] for name in names))
    if op == "publish":
        return await publish(**args)
    if op == "feed":
        return start_feed(args["directory"])
    if op == "unpublish":
        return unpublish(args["id"])
    raise Refused("unknown_op", f"no such request: {op}")


async def control(reader, writer):
    try:
        while line := await reader.readline():
            request = json.loads(line)
            op = request.pop("op")
            try:
                if op == "connect":
                    inner = await connect_inside(request["pid"], request["start"], request["port"])
                    writer.write(b'{"ok":true}\n')
                    await splice(reader, writer, *inner)
                    return
                reply = {"ok": True, **(await answer(op, request) or {})} if op != "quit" else {"ok": True}
            except Refused as error:
                reply = {"ok": False, "code": error.code, "message": str(error)}
            except OSError as error:
                code = {17: "exists", 2: "missing", 28: "no_space"}.get(error.errno, "failed")
                reply = {"ok": False, "code": code, "message": str(error)}
            writer.write((json.dumps(reply) + "\n").encode())
            await writer.drain()
            if op == "quit":
                os.unlink(sys.argv[1])  # Tells whoever watches over it that its end is meant.
                os._exit(0)
    except (OSError, ValueError):
        pass
    finally:
        writer.close()


async def main():
    path = sys.argv[1]
    allowed_uids.update(int(uid) for uid in sys.argv[3].split(","))
    os.umask(0o177)
    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("another helper holds the lock")
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    server = await asyncio.start_unix_server(control, path, backlog=512)
    await server.serve_forever()


asyncio.run(main())
