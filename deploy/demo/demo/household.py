"""The household's directories: one for each agent, and one for both."""

import os
import shutil
from pathlib import Path
from typing import Final

OWNER: Final = 1000
"""Who the sandboxes run as, where we may give directories away."""

_FILES: Final = {
    "rain/MEMORY.md": "Rain's own thoughts.\n",
    "tio-claude/MEMORY.md": "Tio's own thoughts.\n",
    "shared/README.md": "Both of us read and write here.\n",
}
# The shared directory is mounted into each of the others; made by the engine, the mount point would be root's.
_MOUNT_POINTS: Final = ("rain/shared", "tio-claude/shared")


def owner() -> str:
    """Tell who will own the directories: ``uid:gid``."""
    return f"{OWNER}:{OWNER}" if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"


def ensure(root: Path) -> None:
    """Make the directories and what lies in them; what was written there since stays."""
    root.mkdir(parents=True, exist_ok=True, mode=0o755)
    folders = sorted({*(str(Path(name).parent) for name in _FILES), *_MOUNT_POINTS})
    for name in folders:
        folder = root / name
        folder.mkdir(exist_ok=True, mode=0o700)
        _give_away(folder)
    for name, text in _FILES.items():
        if not (root / name).exists():
            (root / name).write_text(text, encoding="utf-8")
            _give_away(root / name)


def remove(root: Path) -> None:
    """Remove them with everything that was written there."""
    shutil.rmtree(root, ignore_errors=True)


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, OWNER, OWNER, follow_symlinks=False)
