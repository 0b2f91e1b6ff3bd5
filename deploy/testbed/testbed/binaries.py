"""The programs of the control plane and the node, built from Go modules and cached.

No image and no release archive is needed, only Go and its module proxy. The cache is keyed by what the
modules say (go.mod, go.sum, our own lines) and by the version of Go, and lies outside the checkout. A
program gets its name only when it is whole, so a build that was broken off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed import paths, progress

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.paths import Layout

OLDEST_GO = (1, 26)
"""The etcd module asks for it."""

_NO_GO = (
    "Building the test bed needs Go {wanted} or newer ({found}). Debian's golang package is too old: "
    "install Go as its home page describes and put `go` on PATH, or name the program in $GO."
)


class GoMissingError(RuntimeError):
    """No Go, or one that is too old."""


@dataclass(frozen=True)
class Program:
    """One program and the package it is built from."""

    name: str
    module: str
    package: str = "."


# The API server first: it takes longest, and what the others share with it is then built already.
PROGRAMS = (
    Program("pause", "pause"),
    Program("etcd", "etcd"),
    *(
        Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")
        for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kubelet")
    ),
)


@dataclass(frozen=True)
class Go:
    """A Go that is new enough."""

    path: str
    version: str


def find_go() -> Go:
    """Find Go, or say what to install."""
    # The second place is where Go's own installation instructions put it.
    path = os.environ.get("GO") or shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    wanted = ".".join(map(str, OLDEST_GO))
    if path is None:
        raise GoMissingError(_NO_GO.format(wanted=wanted, found="none was found"))
    try:
        version = subprocess.run(
            [path, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"GOWORK": "off"},
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise GoMissingError(_NO_GO.format(wanted=wanted, found=str(error))) from error
    parts = re.match(r"go(\d+)\.(\d+)", version)
    if parts is None or (int(parts[1]), int(parts[2])) < OLDEST_GO:
        raise GoMissingError(_NO_GO.format(wanted=wanted, found=f"{path} is {version}"))
    return Go(path, version)


def folder(layout: Layout, *, go_version: str) -> Path:
    """Name the folder of the programs that these modules make."""
    digest = hashlib.sha256(go_version.encode())
    for file in sorted(paths.MODULES.glob("*/*")):
        if file.name in {"go.mod", "go.sum"} or file.suffix == ".go":
            digest.update(f"\0{file.relative_to(paths.MODULES)}\0".encode())
            digest.update(file.read_bytes())
    return layout.cache / f"bin-{digest.hexdigest()[:16]}"


def path(layout: Layout) -> Path:
    """Give the folder that holds everything, built or not."""
    return folder(layout, go_version=find_go().version)


def ensure(layout: Layout) -> Path:
    """Build what is not in the cache yet, and give the folder that holds everything."""
    go = find_go()
    bin_dir = folder(layout, go_version=go.version)
    missing = [program for program in PROGRAMS if not (bin_dir / program.name).exists()]
    if not missing:
        return bin_dir
    bin_dir.mkdir(parents=True, exist_ok=True)
    names = ", ".join(program.name for program in missing)
    progress.say(f"Building with {go.version}, once, a matter of minutes: {names}")
    for number, program in enumerate(missing, start=1):
        with progress.step(f"Building {program.name} ({number} of {len(missing)})"):
            _build(program, bin_dir / program.name, go)
        progress.say(f"  {program.name}: {(bin_dir / program.name).stat().st_size / 1e6:.0f} MB")
    return bin_dir


def _build(program: Program, target: Path, go: Go) -> None:
    module = paths.MODULES / program.module
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        done = subprocess.run(
            [
                *(go.path, "build", "-mod=readonly", "-trimpath", "-buildvcs=false"),
                *("-ldflags", f"-s -w {_version_flags(module)}".strip(), "-o", str(draft), program.package),
            ],
            cwd=module,
            # Without C the programs are static: the pause image has nothing but its one.
            env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program.name} does not build:\n{done.stderr[-4000:]}")
        draft.replace(target)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _version_flags(module: Path) -> str:
    """Stamp the version into Kubernetes, whose own build scripts do so; clients ask for it."""
    required = (module / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\S*)", required, re.MULTILINE)
    if found is None:
        return ""
    return " ".join(
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in (
            ("gitVersion", found[1]),
            ("gitMajor", found[2]),
            ("gitMinor", found[3]),
            ("gitTreeState", "clean"),
        )
    )
