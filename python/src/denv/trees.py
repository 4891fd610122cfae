"""Local files as tar archives that a denv server unpacks into sandboxes."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from .types import Files


class TreeRefused(ValueError):
    """Files that cannot be packed as they stand."""


@dataclass(frozen=True)
class PackedTree:
    """An archive in a file without a name, which goes with this object, and with the process however that ends."""

    to: str
    sha256: str
    size: int
    _file: IO[bytes] = field(repr=False)

    def __post_init__(self) -> None:
        weakref.finalize(self, self._file.close)

    def open(self) -> IO[bytes]:
        """From its start. Any number may read at once."""
        return cast(IO[bytes], io.BufferedReader(_Reader(self._file.fileno()), 1 << 20))


class _Reader(io.RawIOBase):
    """Reads an open file at a place of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._descriptor, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def pack_files(files: Files) -> list[PackedTree]:
    """Packs each place's files. The same names, contents and modes are the same archive, whenever and wherever it is made.

    :raises TreeRefused: a link that leads out of its folder, a socket, pipe or device
    """
    return [_pack(Path(source), to) for to, source in files.items()]


def _pack(source: Path, to: str) -> PackedTree:
    if not to.startswith("/"):
        raise TreeRefused(f"files go to absolute paths, not to {to!r}")
    if source.is_dir():
        return _archive(to, _entries(source))
    if not source.is_file():
        raise TreeRefused(f"{source} is neither a file nor a folder")
    if to.endswith("/"):
        return _archive(to, iter([(source.name, source)]))
    place = PurePosixPath(to)
    return _archive(str(place.parent), iter([(place.name, source)]))


def _entries(root: Path) -> Iterator[tuple[str, Path]]:
    def walk(folder: Path) -> Iterator[tuple[str, Path]]:
        for path in sorted(folder.iterdir(), key=lambda entry: os.fsencode(entry.name)):
            yield path.relative_to(root).as_posix(), path
            if path.is_dir() and not path.is_symlink():
                yield from walk(path)
            elif path.is_symlink():
                _refuse_leading_out(root, path)

    return walk(root)


def _refuse_leading_out(root: Path, link: Path) -> None:
    target = os.readlink(link)
    lands = os.path.normpath(link.parent / target)
    inside = lands == str(root) or lands.startswith(f"{root}{os.sep}")
    if os.path.isabs(target) or not inside:
        raise TreeRefused(f"the link {link} leads out of {root}, to {target}")


def _archive(to: str, entries: Iterator[tuple[str, Path]]) -> PackedTree:
    file = cast(IO[bytes], tempfile.TemporaryFile(prefix="denv-tree-"))
    try:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path in entries:
                _add(archive, name, path)
    except BaseException:
        file.close()
        raise
    file.flush()
    file.seek(0)
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    return PackedTree(to, sha256, file.tell(), file)


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    found = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode = found.st_mode & 0o777
    if stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif stat.S_ISLNK(found.st_mode):
        info.type = tarfile.SYMTYPE
        info.mode = 0o777
        info.linkname = os.readlink(path)
        archive.addfile(info)
    elif stat.S_ISREG(found.st_mode):
        info.size = found.st_size
        with path.open("rb") as content:
            archive.addfile(info, content)
    else:
        raise TreeRefused(f"{path} is a socket, pipe or device; only files, folders and links are packed")
