"""Temporary file systems: ``path[:option,option...]``, as after ``docker run --tmpfs``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sandkeeper.config.binds import is_kernel_path, normalise_path

__all__ = ["Tmpfs", "normalise_tmpfs", "parse_tmpfs"]

_OPTION: Final = re.compile(
    r"ro|rw|exec|noexec|nosuid|nodev"
    r"|atime|noatime|diratime|nodiratime|relatime|norelatime|strictatime|nostrictatime"
    r"|sync|async|dirsync"
    r"|size=[0-9]+[kKmMgG%]?|nr_inodes=[0-9]+[kKmMgG]?|nr_blocks=[0-9]+[kKmMgG]?"
    r"|mode=[0-7]{3,4}|uid=[0-9]{1,10}|gid=[0-9]{1,10}",
    re.ASCII,
)
"""What the engine takes (moby's ``validFlags`` for tmpfs), without `dev` and `suid`: those only serve to
break out."""

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a path inside the sandbox, not ours


@dataclass(frozen=True)
class Tmpfs:
    """One temporary file system, its path normalised."""

    path: str
    options: str

    def __str__(self) -> str:
        return f"{self.path}:{self.options}" if self.options else self.path


def parse_tmpfs(text: str) -> Tmpfs:
    """Parse ``path[:options]``.

    ValueError: not absolute, where the kernel's files are, or an unknown option.
    """
    path, _, options = text.partition(":")
    path = normalise_path(path)
    # Browsers need a larger /dev/shm than the engine's 64 MiB.
    if path == "/" or (is_kernel_path(path) and path != _SHARED_MEMORY):
        raise ValueError(f"{text!r} cannot be mounted at {path}")
    for option in options.split(",") if options else ():
        if _OPTION.fullmatch(option) is None:
            raise ValueError(f"{text!r} has an option that is not allowed: {option}")
    return Tmpfs(path, options)


def normalise_tmpfs(texts: Iterable[str]) -> tuple[str, ...]:
    """Return them in one spelling each, one per path: the last one wins.

    ValueError as :func:`parse_tmpfs`.
    """
    by_path: dict[str, Tmpfs] = {}
    for tmpfs in map(parse_tmpfs, texts):
        by_path.pop(tmpfs.path, None)
        by_path[tmpfs.path] = tmpfs
    return tuple(map(str, by_path.values()))
