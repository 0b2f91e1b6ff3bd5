"""The household's directories on the host."""

import os
import shutil
from pathlib import Path
from typing import Final

OWNER: Final = 1000
"""Who the sandboxes run as, where we may give directories away."""

_OWNERS_ALONE: Final = 0o700
_THE_GROUPS_TOO: Final = 0o2770


def owner() -> str:
    """Tell who will own the directories: ``uid:gid``."""
    return f"{OWNER}:{OWNER}" if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"


def ensure(root: Path, *names: str) -> None:
    """Make directories that are the sandboxes' own; what was written there since stays."""
    _make_root(root)
    for name in names:
        _make(root / name, mode=_OWNERS_ALONE)


def ensure_common(root: Path, name: str) -> None:
    """Make a directory in which somebody else, as root, makes the sandboxes' own."""
    _make_root(root)
    # What is made in it takes its group and its mode from it, and its owner from whoever makes it.
    _make(root / name, mode=_THE_GROUPS_TOO)


def remove(root: Path) -> None:
    """Remove them with everything that was written there."""
    shutil.rmtree(root, ignore_errors=True)


def _make_root(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True, mode=0o755)


def _make(folder: Path, *, mode: int) -> None:
    folder.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, OWNER, OWNER, follow_symlinks=False)
    # After the owner, whose change takes the bit of the group away.
    folder.chmod(mode)
