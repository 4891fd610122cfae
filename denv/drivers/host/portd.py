"""The host helper of the linux driver: what Node cannot do itself, in one small process for all sandboxes.

 - tree work (trees.py): btrfs ioctls, and the freeze-snapshot-thaw sequence, which here waits for nobody's event loop
 - sockets inside a sandbox's network namespace: a socket belongs to the namespace it is created in, so each connection
   enters it, makes the socket and comes back
 - the finite input of execs (feeds.py), which conmon takes only over a kind of socket that Node has not
 - published ports: loopback listeners that refuse peers of another user

Usage: portd.py SOCKET VERSION UID[,UID...].  Control: a root-only unix socket, one JSON line a request, one a reply.
It outlives the server and is adopted by the next one; a lock file beside the socket keeps it alone.
"""

import asyncio
import fcntl
import json
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # An isolated Python does not look beside its script.

import feeds
import trees
from trees import Refused, check, libc

CLONE_NEWNET = 0x40000000

allowed_uids = set()
host_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
published = {}
jobs = set()
workers = ThreadPoolExecutor(max_workers=8)


# Sockets


def start_time(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def open_namespace(pid):
    """Its network namespace. As root, EACCES too means that it ended meanwhile."""
    try:
        return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        raise Refused("gone", f"process {pid} is gone")


def socket_inside(pid, start, family):
    """A socket in the network namespace of one process, which must still be the one that was meant."""
    fd = open_namespace(pid)
    try:
        if start_time(pid) != start:
            raise Refused("gone", f"process {pid} is another one now")
        check(libc.setns(fd, CLONE_NEWNET), "setns")
        try:
            return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        finally:
            if libc.setns(host_namespace, CLONE_NEWNET):
                os._exit(70)  # Going on in a sandbox's namespace would be worse than dying.
    except (FileNotFoundError, ProcessLookupError):
        raise Refused("gone", f"process {pid} is gone")
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


# Control


async def in_thread(work, *args):
    job = asyncio.get_running_loop().run_in_executor(workers, work, *args)
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
        return await in_thread(trees.subvolume, args["path"])
    if op == "delete":
        return await in_thread(trees.delete, args["path"])
    if op == "readOnly":
        return await in_thread(trees.set_read_only, args["path"])
    if op == "snapshot":
        names = ("source", "target", "readOnly", "flush", "cgroup", "kill")
        return await in_thread(trees.snapshot, *(args[name] for name in names))
    if op == "changed":
        return await in_thread(trees.changed, args["tree"], args["since"])
    if op == "publish":
        return await publish(**args)
    if op == "feed":
        return feeds.start(args["directory"])
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
                trees.let_go()  # Here, and not in the last moments of a process that counts as gone already.
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
