"""Mounts below a folder, taken away whatever left them there."""

from __future__ import annotations

import subprocess
from pathlib import Path


def below(folder: Path) -> list[str]:
    """List what is mounted at or below a folder, the last mounted first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        # The kernel writes blanks and the like as octal escapes.
        point = line.split()[4].encode().decode("unicode_escape")
        if point == str(folder) or point.startswith(f"{folder}/"):
            found.append(point)
    return found[::-1]


def unmount_below(folder: Path) -> None:
    """Unmount everything at or below a folder, lazily where something still has it open."""
    for point in below(folder):
        if subprocess.run(["umount", point], capture_output=True, check=False).returncode:
            subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
