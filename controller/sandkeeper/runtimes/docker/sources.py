"""Directories of the host: found where their links lead, and checked on the host itself, right before they are used.

What is written in a policy was checked as text long ago. Here everything is checked again with all links followed, and
against what only the host knows: where its homes keep credentials, and where the engine keeps its own files.
"""

import errno
import os
import posixpath
import pwd
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.config.binds import (
    BLOCKED_HOME_PARTS,
    BLOCKED_SOCKETS,
    Mount,
    check_directory,
    check_real_directory,
    is_below,
    normalise_path,
)
from sandkeeper.config.operator import Ceilings

__all__ = ["Sources", "bind_roots_of", "follow", "reason_of"]

_HOMES: Final = Path("/home")
_ROOTS_HOME: Final = "/root"
_MOST_LINKS: Final = 40
"""As the kernel has it."""


class Sources:
    """One look at the host. What is resolved once stays so for as long as it takes."""

    def __init__(self, ceilings: Ceilings, *, never: Iterable[str]) -> None:
        """``never``: what is bound to nobody besides what never is anywhere."""
        self._ceilings = ceilings
        self._resolve: Callable[[str], str] = cache(os.path.realpath)
        """Raises OSError where a link cannot be read, as few are."""
        self.links: set[str] = set()
        """The places of all links that led to what was found. Whoever writes there chooses where they lead."""
        self._never = frozenset({*never, *_credentials()})

    def bind(self, bind: Mount) -> Mount:
        """Find what is bound; Permanent with BIND_REFUSED where it may not be, or is not there."""
        field = f"container.binds: {str(bind)!r}"
        source = self._checked(bind.source, field)
        try:
            mode = Path(source).lstat().st_mode
        except OSError as error:
            raise _refused(
                field,
                f"{source} cannot be looked at: {reason_of(error)}. Make it first; nothing makes it for you",
            ) from None
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise _refused(field, f"{source} is neither a directory nor a file")
        return Mount(source, bind.target, bind.mode)

    def directory(self, path: str, *, field: str) -> str:
        """Find a directory of the policy's; Permanent where it may not be used, Transient where it is not there."""
        found = self._checked(path, f"{field}: {path!r}")
        try:
            mode = Path(found).lstat().st_mode
        except OSError as error:
            raise _missing(field, path, reason_of(error)) from None
        if not stat.S_ISDIR(mode):
            raise _missing(field, path, "it is no directory")
        return found

    def recheck(self, source: str) -> None:
        """Check once more what a container has already, and is about to be mounted again. Permanent as :meth:`bind`."""
        field = f"{source!r}, which the container has,"
        if (real := self._real(source, field)) != source:
            raise _refused(field, f"it leads to {real} by now; ask for a new runtime")
        self._check(source, field)
        with suppress(FileNotFoundError):  # the engine says so
            mode = Path(source).lstat().st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise _refused(field, "it is neither a directory nor a file by now")

    def _checked(self, path: str, field: str) -> str:
        """Return where the links of a path lead, if that may be bound."""
        if (why := check_directory(path, self._ceilings)) is not None:
            raise _refused(field, why)
        real = self._real(path, field)
        self._check(real, field)
        return real

    def _real(self, path: str, field: str) -> str:
        try:
            real, links = follow(normalise_path(path))
        except OSError as error:
            raise _refused(field, f"its links cannot be followed: {reason_of(error)}") from None
        self.links |= links
        return real

    def _check(self, real: str, field: str) -> None:
        why = check_real_directory(real, self._ceilings, self._resolve, blocked=self._never)
        if why is None and (name := _what_it_holds(real)) is not None:
            why = f"{real} holds {name}, which is never bound; bind a directory inside it"
        if why is not None:
            raise _refused(field, why)


def follow(path: str) -> tuple[str, frozenset[str]]:
    """Return where an absolute path leads, like os.path.realpath, and the places of the links on the way.

    In one walk: at the next look another link may be there. OSError: one cannot be read, or they lead in a circle.
    """
    real, links, left = "/", list[str](), deque(path.split("/"))
    while left:
        name = left.popleft()
        here = posixpath.normpath(posixpath.join(real, name))
        if name in {"", ".", ".."} or not Path(here).is_symlink():
            real = here
            continue
        links.append(here)
        if len(links) > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = str(Path(here).readlink())
        real = "/" if target.startswith("/") else real
        left.extendleft(reversed(target.split("/")))
    return real, frozenset(links)


def bind_roots_of(paths: Collection[str], ceilings: Ceilings) -> list[str]:
    """Return the bind roots that any of the paths lies below, by their names or by where their links lead."""
    return [
        root
        for root in ceilings.bind_roots
        if any(
            is_below(path, normalise_path(real)) for path in paths for real in (root, os.path.realpath(root))
        )
    ]


def reason_of(error: OSError) -> str:
    """Return in a few words what the operating system says."""
    return (error.strerror or type(error).__name__).lower()


def _what_it_holds(directory: str) -> str | None:
    """Return what keeps credentials, or is an engine's socket, directly in a directory; None: nothing does.

    Homes are not only where homes usually are. An error counts as there: nobody can tell.
    """
    for name in sorted(BLOCKED_HOME_PARTS | BLOCKED_SOCKETS):
        try:
            Path(directory, name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return name
        return name
    return None


def _credentials() -> Iterator[str]:
    """Yield where the homes of this host keep credentials. Those that are links are followed by whoever asks."""
    homes = {entry.pw_dir for entry in pwd.getpwall() if entry.pw_dir.startswith("/")} | {_ROOTS_HOME}
    with suppress(OSError):
        homes |= {str(home) for home in _HOMES.iterdir()}
    for home in sorted(homes):
        for name in BLOCKED_HOME_PARTS:
            path = normalise_path(f"{home}/{name}")
            if os.path.lexists(path):
                yield path


def _refused(field: str, why: str) -> Permanent:
    return Permanent(Reason.BIND_REFUSED, f"{field} is refused: {why}.")


def _missing(field: str, path: str, why: str) -> Transient:
    return Transient(
        Reason.VOLUME_MISSING,
        f"{field}: {path!r} cannot be used: {why}. Make the directory on the engine's host, and give it to the user "
        "that sandboxes run as; nothing makes it for you.",
    )
