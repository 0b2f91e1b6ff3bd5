"""The programs of the control plane and the node, built from Go modules and cached.

No image and no release archive is needed, only Go and its module proxy. Each kit of programs has a folder
of its own in the cache, keyed by what its modules say (go.mod, go.sum, our own lines) and by the version of
Go, so that a change to one kit does not build another anew. The cache lies outside the checkout. A program
gets its name only when it is whole, so a build that was broken off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import locks, paths, progress

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class Kit:
    """Programs that share a folder of the cache."""

    name: str
    programs: tuple[Program, ...]

    @property
    def modules(self) -> frozenset[str]:
        """The modules that decide what the folder is called."""
        return frozenset(program.module for program in self.programs)


CLUSTER = Kit(
    "bin",
    (
        Program("pause", "pause"),
        Program("etcd", "etcd"),
        *(
            # The API server first: it takes longest, and what the others share with it is then built already.
            Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")
            for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kubelet")
        ),
    ),
)
"""What a cluster of our own is made of."""


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


def folder(layout: Layout, kit: Kit, *, go_version: str) -> Path:
    """Name the folder of the programs that a kit's modules make."""
    digest = hashlib.sha256(go_version.encode())
    for file in sorted(paths.MODULES.glob("*/*")):
        if file.parent.name not in kit.modules:
            continue
        if file.name in {"go.mod", "go.sum"} or file.suffix == ".go":
            digest.update(f"\0{file.relative_to(paths.MODULES)}\0".encode())
            digest.update(file.read_bytes())
    return layout.cache / f"{kit.name}-{digest.hexdigest()[:16]}"


def path(layout: Layout) -> Path:
    """Give the folder that holds the cluster's programs, built or not."""
    return folder(layout, CLUSTER, go_version=find_go().version)


def ensure(layout: Layout, kit: Kit = CLUSTER) -> Path:
    """Build what is not in the cache yet, and give the folder that holds the kit."""
    go = find_go()
    bin_dir = folder(layout, kit, go_version=go.version)
    if not _missing(kit, bin_dir):
        return bin_dir
    bin_dir.mkdir(parents=True, exist_ok=True)
    # Whoever comes second waits for the same programs instead of building them once more.
    with locks.exclusive(bin_dir.with_name(f"{bin_dir.name}.lock")):
        missing = _missing(kit, bin_dir)
        names = ", ".join(program.name for program in missing)
        if names:
            progress.say(f"Building with {go.version}, once, a matter of minutes: {names}")
        for number, program in enumerate(missing, start=1):
            with progress.step(f"Building {program.name} ({number} of {len(missing)})"):
                _build(program, bin_dir / program.name, go)
            progress.say(f"  {program.name}: {(bin_dir / program.name).stat().st_size / 1e6:.0f} MB")
    return bin_dir


def _missing(kit: Kit, bin_dir: Path) -> list[Program]:
    return [program for program in kit.programs if not (bin_dir / program.name).exists()]


def sources(module: str, dependency: str) -> Path:
    """Give the folder with the sources of a dependency of one of our modules, downloaded if need be."""
    done = subprocess.run(
        [find_go().path, "mod", "download", "-json", dependency],
        cwd=paths.MODULES / module,
        env=os.environ | {"GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{dependency} cannot be had:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Path(json.loads(done.stdout)["Dir"])


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
