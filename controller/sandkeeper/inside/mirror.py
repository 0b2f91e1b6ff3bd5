"""Keeps one directory like another: an agent's skills, where its sandbox is shown a copy of them.

The source may be written to by code that nobody reviewed, so all goes by descriptors, as in :mod:`prepare`. Nobody but
us writes to the target. Its files are for everybody to read: who gets to see them, the directory around it decides.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import NamedTuple

from sandkeeper.inside.prepare import DIRECTORY, LeftOut, check_file, copy, empty, is_allowed, open_file, why

__all__ = ["Bounds", "mirror"]

_MOST_COMPLAINTS = 8
_FILE, _PROGRAM, _DIRECTORY = 0o644, 0o755, 0o755


class Bounds(NamedTuple):
    """How much is copied; what is beyond is left out."""

    entries: int
    bytes: int
    depth: int
    """Directories within each other, the source not counted."""


def mirror(source: int, target: int, *, bounds: Bounds, reader: tuple[int, int] | None = None) -> list[str]:
    """Make the target like the source; return what is not copied, and why.

    What is as it was is not touched, what is gone at the source goes, and a file changes as a whole. Of links and of
    what is neither a file nor a directory there is no copy, nor of what ``reader`` (uid and gid) could not read.
    """
    run = _Run(bounds, reader)
    run.directory(source, target, path="", depth=0)
    return run.complaints


class _Run:
    def __init__(self, bounds: Bounds, reader: tuple[int, int] | None) -> None:
        self._bounds = bounds
        self._reader = reader
        self._entries_left = bounds.entries
        self._bytes_left = bounds.bytes
        self._complaints: list[str] = []
        self._untold = 0

    @property
    def complaints(self) -> list[str]:
        return [*self._complaints, *([f"and {self._untold} more"] if self._untold else [])]

    def directory(self, source: int, target: int, *, path: str, depth: int) -> None:
        """Make a directory like another, both open."""
        kept = set()
        for name in self._names(source, path):
            inner = f"{path}/{name}" if path else name
            if self._entry(source, target, name, path=inner, depth=depth + 1):
                kept.add(name)
        for name in os.listdir(target):
            if name not in kept:
                _remove(target, name)

    def _names(self, source: int, path: str) -> list[str]:
        """List a directory, as far as there is room for it."""
        names = []
        with os.scandir(source) as entries:
            for entry in entries:
                if not self._entries_left:
                    self._complain(path, LeftOut(f"there are more than {self._bounds.entries} names"))
                    break
                self._entries_left -= 1
                names.append(entry.name)
        return sorted(names)

    def _entry(self, source: int, target: int, name: str, *, path: str, depth: int) -> bool:
        """Copy what has a name; False: nothing is to be there."""
        try:
            status = os.stat(name, dir_fd=source, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                self._enter(source, target, name, path=path, depth=depth)
            else:
                self._file(source, target, name, status)
        except FileNotFoundError:
            return False  # it went while we looked
        except LeftOut as error:
            self._complain(path, error)
            return False
        except OSError as error:
            self._complain(path, error)  # what there is of it stays
        return True

    def _enter(self, source: int, target: int, name: str, *, path: str, depth: int) -> None:
        if depth > self._bounds.depth:
            raise LeftOut(f"it lies more than {self._bounds.depth} directories deep")
        with contextlib.ExitStack() as opened:
            there = os.open(name, DIRECTORY, dir_fd=source)
            opened.callback(os.close, there)
            if not is_allowed(os.fstat(there), self._reader):
                raise LeftOut("the sandbox's user may not enter it")
            here = _make_directory(target, name)
            opened.callback(os.close, here)
            self.directory(there, here, path=path, depth=depth)

    def _file(self, source: int, target: int, name: str, status: os.stat_result) -> None:
        check_file(status, self._reader)
        if status.st_size > self._bytes_left:
            raise LeftOut(f"there are more than {self._bounds.bytes} bytes")
        if _is_same(target, name, status):
            self._bytes_left -= status.st_size
            return
        original = open_file(source, name, reader=self._reader)

        def finish(made: int) -> None:
            found = os.fstat(original)
            os.fchmod(made, _mode(found))
            os.utime(made, ns=(found.st_mtime_ns, found.st_mtime_ns))
            self._bytes_left -= os.fstat(made).st_size

        try:
            mine = copy(original, target, most=self._bytes_left, finish=finish)
        finally:
            os.close(original)
        _put(target, mine, name)

    def _complain(self, path: str, error: Exception) -> None:
        if len(self._complaints) == _MOST_COMPLAINTS:
            self._untold += 1
        else:
            self._complaints.append(f"{path or '.'!r} is not copied: {why(error)}")


def _mode(status: os.stat_result) -> int:
    return _PROGRAM if status.st_mode & stat.S_IXUSR else _FILE


def _is_same(target: int, name: str, status: os.stat_result) -> bool:
    try:
        copied = os.stat(name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (copied.st_mode, copied.st_size, copied.st_mtime_ns) == (
        stat.S_IFREG | _mode(status),
        status.st_size,
        status.st_mtime_ns,
    )


def _put(target: int, mine: str, name: str) -> None:
    """Give a finished file its name, whatever has that so far."""
    try:
        os.rename(mine, name, src_dir_fd=target, dst_dir_fd=target)
    except IsADirectoryError:
        _remove(target, name)
        os.rename(mine, name, src_dir_fd=target, dst_dir_fd=target)


def _make_directory(target: int, name: str) -> int:
    """Open the directory of that name, in place of whatever else has it."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=target, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=target)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=target)
    handle = os.open(name, DIRECTORY, dir_fd=target)
    os.fchmod(handle, _DIRECTORY)
    return handle


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        inner = os.open(name, DIRECTORY, dir_fd=directory)
        try:
            empty(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=directory)
