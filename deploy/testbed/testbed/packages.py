"""What the test bed needs from Debian, installed when it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import progress

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

CNI_PLUGINS = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins puts its programs."""

_POLICY = Path("/usr/sbin/policy-rc.d")

BED = {
    "dockerd": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "debootstrap": "debootstrap",
    str(CNI_PLUGINS / "bridge"): "containernetworking-plugins",
}
"""What a cluster and an engine of our own are made from: packages by their programs."""

PROMETHEUS = {"prometheus": "prometheus", "promtool": "prometheus"}
"""What alerts and dashboards are tested with. Tests start it themselves, each with folders of its own."""


def ensure(packages: Mapping[str, str] = BED) -> None:
    """Install the packages whose programs are not there."""
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    missing = sorted(
        {name for program, name in packages.items() if shutil.which(program, path=search) is None}
    )
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise RuntimeError(f"install these, or what your distribution calls them: {' '.join(missing)}")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with progress.step(f"Installing from Debian: {' '.join(missing)}"), _no_service_starts():
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
            done = subprocess.run(
                ["apt-get", *command],
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(
                    f"apt-get {command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
                )


@contextmanager
def _no_service_starts() -> Generator[None, None, None]:
    """Keep Debian's package scripts from starting the daemons: we start our own, and stop them."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()
