"""Files that differ between two frozen trees, by content.  Usage: treediff.py A B LIMIT

Prints {"files": [{"path", "change", "bytes"}], "more": N}, in the order of paths. No link is followed. Two files that lie in
the same place on disk are the same and are not read.
"""

import fcntl
import json
import os
import stat
import struct
import sys

FIEMAP = 0xC020660B
FIEMAP_HEAD = struct.Struct("<QQIIII")
FIEMAP_EXTENT = struct.Struct("<QQQ16xI12x")
EXTENTS = 64
# Of a place on disk that can be compared: the last of its file, not yet written to, shared.
KNOWN_FLAGS = 0x1 | 0x800 | 0x2000
LAST = 0x1
MAX_DEPTH = 200
CHUNK = 1 << 20

limit = int(sys.argv[3])
files = []
more = 0


def found(path, change, bytes):
    global more
    if len(files) < limit:
        files.append({"path": path, "change": change, "bytes": bytes})
    else:
        more += 1


class Tree:
    """A folder in one of the two trees, or nothing where the other tree has one."""

    def __init__(self, parent, name):
        self.fd = None
        if parent is not None:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self.fd = os.open(name, flags, dir_fd=parent.fd if isinstance(parent, Tree) else None)

    def names(self):
        return set() if self.fd is None else set(os.listdir(self.fd))

    def stat(self, name):
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def close(self):
        if self.fd is not None:
            os.close(self.fd)


def compare(a, b, path, depth):
    if depth > MAX_DEPTH:
        sys.exit(f"{path} is deeper than {MAX_DEPTH} folders")
    in_a, in_b = a.names(), b.names()
    for name in sorted(in_a | in_b):
        compare_names(
            (a, a.stat(name) if name in in_a else None),
            (b, b.stat(name) if name in in_b else None),
            name,
            f"{path}/{name}",
            depth,
        )


def compare_names(side_a, side_b, name, path, depth):
    (a, of_a), (b, of_b) = side_a, side_b
    folder_a, folder_b = is_folder(of_a), is_folder(of_b)
    file_a, file_b = of_a is not None and not folder_a, of_b is not None and not folder_b
    if file_a and file_b:
        if not same(a, of_a, b, of_b, name):
            found(path, "changed", of_b.st_size)
    elif file_a:
        found(path, "removed", of_a.st_size)
    elif file_b:
        found(path, "added", of_b.st_size)
    if folder_a or folder_b:
        below_a, below_b = Tree(a if folder_a else None, name), Tree(b if folder_b else None, name)
        try:
            compare(below_a, below_b, path, depth + 1)
        finally:
            below_a.close()
            below_b.close()


def is_folder(found):
    return found is not None and stat.S_ISDIR(found.st_mode)


def same(a, of_a, b, of_b, name):
    kind = stat.S_IFMT(of_a.st_mode)
    if kind != stat.S_IFMT(of_b.st_mode) or of_a.st_size != of_b.st_size:
        return False
    if kind == stat.S_IFLNK:
        return os.readlink(name, dir_fd=a.fd) == os.readlink(name, dir_fd=b.fd)
    if kind != stat.S_IFREG:
        return of_a.st_rdev == of_b.st_rdev
    return same_content(a, b, name, of_a.st_ino == of_b.st_ino)


def same_content(a, b, name, related):
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd_a = os.open(name, flags, dir_fd=a.fd)
    fd_b = os.open(name, flags, dir_fd=b.fd)
    try:
        places = places_of(fd_a) if related else None
        if places is not None and places == places_of(fd_b):
            return True
        while True:
            piece = os.read(fd_a, CHUNK)
            if piece != os.read(fd_b, CHUNK):
                return False
            if not piece:
                return True
    finally:
        os.close(fd_a)
        os.close(fd_b)


def places_of(fd):
    """Where a file's content lies on disk; None when that does not tell what it is."""
    places = []
    start = 0
    while True:
        request = bytearray(FIEMAP_HEAD.size + EXTENTS * FIEMAP_EXTENT.size)
        FIEMAP_HEAD.pack_into(request, 0, start, (1 << 64) - 1 - start, 0, 0, EXTENTS, 0)
        try:
            fcntl.ioctl(fd, FIEMAP, request)
        except OSError:
            return None
        count = FIEMAP_HEAD.unpack_from(request, 0)[3]
        if count == 0:
            return places
        for n in range(count):
            logical, physical, length, flags = FIEMAP_EXTENT.unpack_from(request, FIEMAP_HEAD.size + n * FIEMAP_EXTENT.size)
            if flags & ~KNOWN_FLAGS:
                return None
            places.append((logical, physical, length, flags & 0x800))
        if flags & LAST:
            return places
        start = logical + length


root_a, root_b = Tree("", sys.argv[1]), Tree("", sys.argv[2])
compare(root_a, root_b, "", 0)
print(json.dumps({"files": files, "more": more}))
