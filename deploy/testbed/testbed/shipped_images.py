"""The images that we ship, built once by their own scripts and kept in the cache as archives.

An engine of our own builds them and goes again, so that no other engine is left with names and layers of
builds. Each archive is called after what it was made from; it holds an image without a name, so that
loading it takes no name from an image that is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import docker
from docker.errors import NotFound

from testbed import host, images, locks, packages, progress
from testbed.engine import Engine, EngineOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from docker.models.images import Image

    from testbed.paths import Layout

SOURCE = Path(__file__).resolve().parents[2] / "images"

TARGETS = {
    "base": "sandkeeper-sandbox:bookworm-slim",
    "common": "sandkeeper-sandbox-common:bookworm-slim",
    "browser": "sandkeeper-sandbox-browser:bookworm-slim",
}
"""What the scripts call what they build, in an order in which it can be built."""

_ON_BASE = frozenset({"common"})
_CHANGES_WHAT_IS_BUILT = frozenset(
    {"BASE_IMAGE", "TARGET_IMAGE", "PACKAGES", "FINAL_USER", "INSTALL_PNPM", "INSTALL_BUN", "INSTALL_BREW"}
)
_SYSTEM_CA_FILE = Path("/etc/ssl/certs/ca-certificates.crt")
_CONTROL_GROUP = "sandkeeper-images"
_ENGINE_SECONDS = 600
_UNUSED_SECONDS = 7 * 24 * 3600.0


def can_build() -> bool:
    """Tell whether an engine of our own can be had here."""
    return sys.platform == "linux" and os.geteuid() == 0


def archive(layout: Layout, name: str) -> Path:
    """Name the archive of an image, made or not."""
    return layout.cache / f"image-{name}-{_recipe(name)}.tar"


def _recipe(name: str) -> str:
    digest = hashlib.sha256((_recipe("base") if name in _ON_BASE else images.base_recipe()).encode())
    for file in sorted(path for path in (SOURCE / name).rglob("*") if path.is_file()):
        digest.update(f"\0{file.relative_to(SOURCE)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def ensure(layout: Layout, environ: Mapping[str, str]) -> None:
    """Build what is not in the cache yet."""
    layout.cache.mkdir(parents=True, exist_ok=True)
    # Whoever comes second waits for the same images instead of building them once more.
    with locks.exclusive(layout.cache / "images.lock"):
        missing = [name for name in TARGETS if not archive(layout, name).exists()]
        if missing:
            progress.say(
                f"Building once, a matter of minutes: {', '.join(TARGETS[name] for name in missing)}"
            )
            with building_engine(layout) as engine:
                _build(engine, layout, missing, environ)
        for name in TARGETS:
            archive(layout, name).touch()
        _forget_unused(layout)


@contextmanager
def building_engine(layout: Layout) -> Iterator[Engine]:
    """Give an engine that builds, has the base image, and goes again with all that it built."""
    packages.ensure()
    host.note()
    # Not below the state folder: there may be no test bed, and the path has to be short.
    with tempfile.TemporaryDirectory(prefix="sk-images-", ignore_cleanup_errors=True) as folder:
        engine = Engine(Path(folder), EngineOptions(control_group=_CONTROL_GROUP))
        try:
            engine.start()
            engine.wait_ready()
            images.ensure_base(engine.url, layout)
            yield engine
        finally:
            engine.destroy()
            host.remove_control_groups(_CONTROL_GROUP)
            host.restore()


def _build(engine: Engine, layout: Layout, names: list[str], environ: Mapping[str, str]) -> None:
    client = docker.DockerClient(base_url=engine.url, timeout=_ENGINE_SECONDS)
    try:
        if "base" not in names and not _ON_BASE.isdisjoint(names):
            load(client, archive(layout, "base"), TARGETS["base"])
        for name in names:
            with progress.step(f"Building {TARGETS[name]}"):
                _run_script(name, engine, environ)
            with progress.step(f"Keeping {TARGETS[name]}", aloud=False):
                keep(client.images.get(TARGETS[name]), archive(layout, name))
            kept = archive(layout, name)
            progress.say(f"  {kept.name}: {kept.stat().st_size / 1e6:.0f} MB")
    finally:
        client.close()


def _run_script(name: str, engine: Engine, environ: Mapping[str, str]) -> None:
    settings = {key: value for key, value in environ.items() if key not in _CHANGES_WHAT_IS_BUILT}
    settings |= {"DOCKER_HOST": engine.url, "CA_FILE": ca_file(environ)}
    if name not in _ON_BASE:
        settings["BASE_IMAGE"] = images.BASE
    # An engine that leaves the machine's network alone has no other network that leads anywhere.
    done = subprocess.run(
        [SOURCE / name / "build.sh", "--network", "host"],
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{TARGETS[name]} cannot be built:\n{done.stdout[-4000:]}")


def ca_file(environ: Mapping[str, str]) -> str:
    """Name the certificates that this machine trusts: what it fetches may come through a proxy of its own."""
    named = environ.get("CA_FILE") or environ.get("SSL_CERT_FILE")
    return named or (str(_SYSTEM_CA_FILE) if _SYSTEM_CA_FILE.exists() else "")


def keep(image: Image, target: Path) -> None:
    """Write an image's archive, without a name."""
    draft = target.with_suffix(f".{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.writelines(image.save(named=False))
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _forget_unused(layout: Layout) -> None:
    """Remove archives of what is no longer built, once no other checkout has asked for them for long."""
    for found in layout.cache.glob("image-*.tar"):
        if time.time() - found.stat().st_mtime > _UNUSED_SECONDS:
            found.unlink()


def load(client: docker.DockerClient, found: Path, name: str) -> None:
    """Give an engine the image of an archive by this name; what the engine has already only gets the name."""
    repository, _, tag = name.partition(":")
    try:
        client.api.tag(image_id(found), repository, tag)
    except NotFound:
        with progress.step(f"Loading {found.name}", aloud=False), found.open("rb") as file:
            (image,) = client.images.load(file)
        image.tag(repository, tag)


def image_id(found: Path) -> str:
    """Read the id of the image in an archive: it is called after its configuration."""
    with tarfile.open(found) as archived:
        listed = archived.extractfile("manifest.json")
        if listed is None:
            raise RuntimeError(f"{found} is not an image; remove it, and it is built anew")
        return f"sha256:{Path(json.load(listed)[0]['Config']).stem}"
