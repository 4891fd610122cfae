"""Trees of sandboxes: btrfs ioctls, and the freeze-snapshot-thaw sequence. A part of the host helper."""

import ctypes
import errno
import fcntl
import os
import struct
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
SUBVOL_CREATE = 0x5000940E
SNAP_DESTROY = 0x5000940F
SNAP_CREATE_V2 = 0x50009417
SUBVOL_SETFLAGS = 0x4008941A
GET_SUBVOL_INFO = 0x81F8943C
SUBVOL_INFO_SIZE = 504
SUBVOL_INFO_CTRANSID = 344
READ_ONLY = 2
FREEZE_LIMIT_S = 20
# The last two are what /proc and cgroupfs answer when a process or cgroup ends after its file was opened.
ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV}

places = {}
placing = threading.Lock()


class Refused(Exception):
    """An answer for the caller, with a word it can branch on."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


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


def unless_absent(error):
    """Raises an error that does not say that something is not there: it says nothing about it."""
    if error.errno not in ABSENT:
        raise error


def read(path):
    """The text of a file; empty when it is not there, or when what it tells of has ended."""
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        unless_absent(error)
        return ""


def put(path, text):
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def standing_still(cgroup):
    """Frozen, or without a process, or gone."""
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
    below = lambda: os.walk(cgroup, onerror=unless_absent)
    wait_until(lambda: all(standing_still(d) for d, _, _ in below()), f"freezing {cgroup}")


def flush_tree(tree):
    """
    Everything that was written to the file system is on disk afterwards. Asked through a descriptor that stays open: only that
    one is told of earlier writes that could not be carried out since it was last asked.
    """
    place = os.path.dirname(tree)
    with placing:
        if place not in places:
            places[place] = open_dir(place)
    check(libc.syncfs(places[place]), f"syncfs {tree}")


def let_go():
    with placing:
        while places:
            os.close(places.popitem()[1])


def snapshot(source, target, readOnly, flush, cgroup, kill):
    """
    Flush, freeze, snapshot, then thaw or kill. Whatever fails in between, the sandbox does not stay frozen, and a snapshot that
    lacks what could not be written is none.
    """
    flush_ms = milliseconds_of(flush_tree, source) if flush else None
    paused_ms = None
    fd = open_dir(source)
    try:
        if cgroup is None:
            take_snapshot(fd, target, readOnly)
        else:
            paused_ms = milliseconds_of(snapshot_frozen, fd, source, target, readOnly, cgroup, kill)
    finally:
        os.close(fd)
    if flush and not kill:
        flush_ms += milliseconds_of(confirm, source, target)
    return {"flushMs": flush_ms, "pausedMs": paused_ms}


def confirm(source, target):
    try:
        flush_tree(source)
    except OSError:
        delete(target)
        raise


def snapshot_frozen(fd, source, target, read_only, cgroup, kill):
    killed = False
    try:
        freeze(cgroup)
        take_snapshot(fd, target, read_only)
        if kill:
            confirm(source, target)  # A snapshot that fails kills nothing.
            put(cgroup + "/cgroup.kill", "1")
            killed = True
    finally:
        try:
            put(cgroup + "/cgroup.freeze", "0")
        except OSError as error:
            unless_absent(error)
    if killed:
        wait_until(lambda: "populated 1" not in read(cgroup + "/cgroup.events"), f"killing {cgroup}")


def milliseconds_of(work, *args):
    begin = time.monotonic()
    work(*args)
    return (time.monotonic() - begin) * 1000


def changed(tree, since):
    """
    Whether a tree has changed since it was `since`, which it was made from or which was made from it. Each keeps the number of
    the transaction that last changed it; a snapshot takes that number over, and taking one is no change. What is still on its
    way to disk has no number yet, so equal numbers count only after a flush.
    """
    flush_ms = None
    try:
        if changed_in(tree) == changed_in(since):
            flush_ms = milliseconds_of(flush_tree, tree)
            return {"changed": changed_in(tree) != changed_in(since), "flushMs": flush_ms}
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP):  # A kernel that does not tell.
            raise
    return {"changed": True, "flushMs": flush_ms}


def changed_in(tree):
    fd = open_dir(tree)
    try:
        info = bytearray(SUBVOL_INFO_SIZE)
        fcntl.ioctl(fd, GET_SUBVOL_INFO, info)
        return struct.unpack_from("<Q", info, SUBVOL_INFO_CTRANSID)[0]
    finally:
        os.close(fd)
