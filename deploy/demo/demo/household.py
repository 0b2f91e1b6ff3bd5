"""The household's directories on the host."""

import os
import shutil
from pathlib import Path
from typing import Final

OWNER: Final = 1000
"""Who the sandboxes run as, where we may give directories away."""

_OWNERS_ALONE: Final = 0o700
_SHARED: Final = "shared"
_FOLDERS: Final = ("rain", "tio-claude", _SHARED)
# Mounted into each of the others; made by an engine or a kubelet, the mount point would be root's.
_MOUNT_POINTS: Final = (f"rain/{_SHARED}", f"tio-claude/{_SHARED}")


def owner() -> str:
    """Tell who will own the directories: ``uid:gid``."""
    return f"{OWNER}:{OWNER}" if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"


def ensure(root: Path) -> None:
    """Make a directory for each agent, and one for both; what was written there since stays."""
    root.mkdir(parents=True, exist_ok=True, mode=0o755)
    for name in (*_FOLDERS, *_MOUNT_POINTS):
        _make(root / name)


def remove(root: Path) -> None:
    """Remove them with everything that was written there."""
    shutil.rmtree(root, ignore_errors=True)


def _make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, OWNER, OWNER, follow_symlinks=False)
    folder.chmod(_OWNERS_ALONE)
