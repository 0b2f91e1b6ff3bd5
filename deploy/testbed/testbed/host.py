"""What programs of ours change on the machine that has no name of ours: settings and folders.

The first test bed notes how it was, and the last one that goes restores it. In between the machine
belongs to all of them. The note is void after a reboot.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed import files, locks, processes
from testbed.instance import SHARED

_NOTE = SHARED / "before.json"

_SETTINGS = tuple(
    Path("/proc/sys") / name
    for name in (
        # Engines switch it on.
        "net/ipv4/ip_forward",
        # And these are the kubelet's.
        "kernel/keys/root_maxbytes",
        "kernel/keys/root_maxkeys",
        "kernel/panic",
        "kernel/panic_on_oops",
        "vm/overcommit_memory",
        "vm/panic_on_oom",
    )
)

_FOLDERS = tuple(
    map(
        Path,
        (
            "/etc/docker",
            "/opt/containerd",
            "/run/containerd",
            "/run/docker",
            "/run/netns",
            "/var/lib/cni",
            "/var/lib/kubelet",
            "/var/log/containers",
        ),
    ),
)


def note() -> None:
    """Note how the machine is, unless a test bed has done so since the machine came up."""
    with locks.exclusive(SHARED / "lock"):
        if _read() is None:
            files.ensure(
                _NOTE,
                json.dumps(
                    {
                        "boot": processes.boot_id(),
                        "settings": {
                            str(path): path.read_text(encoding="utf-8") for path in _SETTINGS if path.exists()
                        },
                        "folders": [str(path) for path in _FOLDERS if path.exists()],
                    },
                ),
            )


def restore() -> None:
    """Put things back, unless another test bed is still up."""
    with locks.exclusive(SHARED / "lock"):
        before = _read()
        if any(SHARED.glob("octet-*")) or before is None:
            return
        for name, value in before["settings"].items():
            with suppress(OSError):
                Path(name).write_text(value, encoding="utf-8")
        for folder in _FOLDERS:
            if str(folder) not in before["folders"]:
                shutil.rmtree(folder, ignore_errors=True)
        # The container runtime's name for Kubernetes; one that others use is not empty, and stays.
        remove_control_groups("k8s.io")
        _NOTE.unlink()


def _read() -> dict[str, Any] | None:
    try:
        read: dict[str, Any] = json.loads(_NOTE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return read if read["boot"] == processes.boot_id() else None


def remove_control_groups(name: str) -> None:
    """Remove the control groups of a test bed, which are empty by now."""
    for found in Path("/sys/fs/cgroup").glob(f"*/{name}"):
        for group in sorted((path for path in found.rglob("*") if path.is_dir()), reverse=True):
            with suppress(OSError):
                group.rmdir()
        with suppress(OSError):
            found.rmdir()
