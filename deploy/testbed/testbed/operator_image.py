"""The operator's own image, built by its script and kept in the cache under what it was made from.

It is built for each change of the operator, by an engine that is made for it: where the programs are to be tested as
they are installed, nothing else will do.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import docker

from testbed import images, locks, progress, shipped_images

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from testbed.paths import Layout

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "deploy/operator"
NAME = "sandkeeper-operator:latest"
"""What the script calls it."""

_OTHERS = ("requirements/runtime.txt",)
_ENGINE_SECONDS = 600
_UNUSED_SECONDS = 24 * 3600.0
"""There is another one for each change of the operator."""


def archive(layout: Layout) -> Path:
    """Name the image's archive, made or not."""
    return layout.cache / f"image-operator-{_recipe()}.tar"


def _recipe() -> str:
    digest = hashlib.sha256(images.base_recipe().encode())
    for file in _sources():
        digest.update(f"\0{file.relative_to(ROOT)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    yield from (ROOT / name for name in _OTHERS)
    for folder in (SOURCE, ROOT / "controller/sandkeeper"):
        yield from sorted(
            path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
        )


def ensure(layout: Layout, environ: Mapping[str, str]) -> Path:
    """Build it unless the cache has it, and give its archive."""
    found = archive(layout)
    layout.cache.mkdir(parents=True, exist_ok=True)
    with locks.exclusive(layout.cache / "images.lock"):
        if not found.exists():
            with shipped_images.building_engine(layout) as engine:
                _build(engine.url, found, environ)
        found.touch()
        for other in layout.cache.glob("image-operator-*.tar"):
            if time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
                other.unlink()
    return found


def _build(engine: str, target: Path, environ: Mapping[str, str]) -> None:
    settings = dict(environ) | {
        "DOCKER_HOST": engine,
        "CA_FILE": shipped_images.ca_file(environ),
        "BASE_IMAGE": images.BASE,
        "TARGET_IMAGE": NAME,
    }
    with progress.step(f"Building {NAME}"):
        # An engine that leaves the machine's network alone has no other network that leads anywhere.
        done = subprocess.run(
            [SOURCE / "build.sh", "--network", "host"],
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{NAME} cannot be built:\n{done.stdout[-4000:]}")
    client = docker.DockerClient(base_url=engine, timeout=_ENGINE_SECONDS)
    try:
        shipped_images.keep(client.images.get(NAME), target)
    finally:
        client.close()
    progress.say(f"  {target.name}: {target.stat().st_size / 1e6:.0f} MB")
