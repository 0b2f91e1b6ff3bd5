"""Files of a sandbox, for whoever acts for the agent from outside of it.

Each call runs one short command in the sandbox, as the sandbox's own user; so it can do nothing there that the sandbox
could not do itself. What it makes sure of is that the caller gets what was asked for: a file of that mount and of no
other, whatever the code in the sandbox does meanwhile. A file that is written is there whole, or as it was before.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sandkeeper.bridge import errors
from sandkeeper.bridge.commands import Ended, Exec
from sandkeeper.bridge.failures import garbled, of_errno, of_refusal
from sandkeeper.bridge.protocol import (
    PYTHONS,
    Answer,
    Entry,
    GarbledError,
    Stat,
    command,
    decode,
    encode,
    encoded,
    most,
)
from sandkeeper.bridge.table import MountTable, Place

__all__ = ["MAX_BYTES", "MAX_ENTRIES", "FileBridge"]

MAX_BYTES: Final = 16 << 20
"""How large a file may be that is read or written, where the caller does not say."""
MAX_ENTRIES: Final = 10_000
"""How much may be in a directory that is listed, where the caller does not say."""

_NOT_STARTED: Final = frozenset({126, 127})
_SLACK: Final = 5.0
"""Seconds that the program in the sandbox has in advance of us, so that it may say itself that it took too long."""
_NONE: Final[Mapping[str, object]] = MappingProxyType({})


class FileBridge:
    """The files of one sandbox. Paths are absolute, and as the sandbox sees them; see :attr:`table` for the host's.

    Every method raises one of :mod:`sandkeeper.bridge.errors`, and nothing else. Names are text; where a name is not
    UTF-8, the bytes that are not are lone surrogates, as :func:`os.fsdecode` has them. Links are not followed.
    """

    def __init__(self, table: MountTable, run: Exec, *, seconds: float = 60) -> None:
        """``seconds``: how long a call may take, but for a few more until it is told that it took too long."""
        self.table: Final = table
        self._run = run
        self._seconds = max(1, math.ceil(seconds))
        self._python: str | None = None
        """Which one the image has, once that is known."""

    async def read(self, path: str, *, max_bytes: int = MAX_BYTES) -> bytes:
        """Return what is in a file. TooLarge where that is more than ``max_bytes``."""
        place = self._file(path)
        options = {"limit": max_bytes}
        _, data = await self._ask("read", place, options, most=most(data=max_bytes))
        if len(data) > max_bytes:
            raise garbled(repr(path), "it is longer than was asked for")
        return data

    async def write(self, path: str, data: bytes, *, max_bytes: int = MAX_BYTES) -> None:
        """Write a file: replace the one that is there, with the mode that it had, or make one.

        The directory has to be there. Whoever reads the file meanwhile sees what was, or what is; after it returns, it
        is on the disk. TooLarge where ``data`` is more than ``max_bytes``.
        """
        place = self._to_change(path)
        if len(data) > max_bytes:
            raise errors.TooLarge(
                f"{path!r}: {len(data)} bytes are more than the {max_bytes} that are allowed"
            )
        await self._ask("write", place, data=data)

    async def listdir(self, path: str, *, max_entries: int = MAX_ENTRIES) -> tuple[Entry, ...]:
        """Return what is in a directory, by name. TooLarge where that is more than ``max_entries``."""
        place = self.table.place(path)
        options = {"limit": max_entries}
        answer, _ = await self._ask("listdir", place, options, most=most(entries=max_entries))
        entries = answer.entries
        if entries is None or len(entries) > max_entries or len({one.name for one in entries}) < len(entries):
            raise garbled(repr(path), "it is no list")
        return tuple(sorted(entries, key=lambda entry: encoded(entry.name)))

    async def stat(self, path: str) -> Stat:
        """Tell what is there. Of a link, what the link is."""
        place = self.table.place(path)
        answer, _ = await self._ask("stat", place)
        if answer.about is None:
            raise garbled(repr(path), "it says nothing of the file")
        return answer.about

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory. With ``parents``, those above it too, and it may be there already."""
        if parents and not self.table.place(path).parts:
            return  # a mount's root is there
        await self._ask("makedirs" if parents else "mkdir", self._to_change(path))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with ``recursive``, a directory and all that is in it.

        What fails in between leaves a part of it removed.
        """
        place = self._to_change(path)
        self._check_no_mount_in(place)
        await self._ask("remove", place, {"recursive": recursive})

    async def rename(self, source: str, target: str) -> None:
        """Move a file or a directory within one mount. A file, or an empty directory, at ``target`` is replaced.

        Refused from one mount to another: it would be a copy, which others could see and change halfway through.
        """
        before, after = self._to_change(source), self._to_change(target)
        if before.mount is not after.mount:
            raise errors.Refused(
                f"{source!r} and {target!r} are in different mounts, {before.mount.target!r} and "
                f"{after.mount.target!r}: write the file there and remove it here"
            )
        self._check_no_mount_in(before)
        self._check_no_mount_in(after)
        options = {"to": [encoded(name) for name in after.parts]}
        await self._ask("rename", before, options, what=f"{source!r} to {target!r}")

    # --- what the table alone can tell ------------------------------------------------------------------------------

    def _file(self, path: str) -> Place:
        place = self.table.place(path)
        if not place.parts:
            raise errors.WrongKind(f"{path!r} is the root of a mount, and a directory")
        return place

    def _to_change(self, path: str) -> Place:
        place = self.table.place(path)
        if place.mount.read_only:
            raise errors.ReadOnly(f"{path!r} is not changed: {place.mount.target!r} is mounted read-only")
        return self._file(path)

    def _check_no_mount_in(self, place: Place) -> None:
        if (mount := self.table.within(place)) is not None:
            raise errors.Refused(f"{place.path!r} is not moved or removed: {mount.target!r} is mounted there")

    # --- what the sandbox has to be asked ---------------------------------------------------------------------------

    async def _ask(
        self,
        operation: str,
        place: Place,
        options: Mapping[str, object] = _NONE,
        *,
        data: bytes = b"",
        most: int = most(),
        what: str = "",
    ) -> tuple[Answer, bytes]:
        """Ask, and return the answer if it is one. ``what``: what it is about, where that is not the place alone."""
        what = what or repr(place.path)
        request = encode(operation, place, options, data=data, seconds=self._seconds)
        ended = await self._run_python(request, most)
        try:
            answer, said = decode(ended.stdout)
        except GarbledError as error:
            how = f"; the command ended with {ended.code}" if ended.code else ""
            complaint = f" and said {ended.stderr[-500:]!r}" if ended.stderr else ""
            raise garbled(what, f"{error}{how}{complaint}") from error
        if answer.refused is not None:
            raise of_refusal(answer.refused, what)
        if answer.errno is not None:
            raise of_errno(answer.errno, what)
        return answer, said

    async def _run_python(self, request: bytes, limit: int) -> Ended:
        candidates = PYTHONS if self._python is None else (self._python,)
        for python in candidates:
            ended = await self._run(
                command(python, seconds=self._seconds), request, limit=limit, seconds=self._seconds + _SLACK
            )
            if ended.code not in _NOT_STARTED:
                self._python = python
                return ended
        raise errors.Unavailable(
            f"the sandbox's image has no Python at {', '.join(candidates)}; without it, its files cannot be reached"
        )
