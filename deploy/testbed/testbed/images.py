"""The images that containers and Pods are made from, without a registry where there is none.

`BASE` is pulled where that works. Elsewhere it is made by debootstrap and imported, once per machine:
the archive is kept in the cache. Everything else can be built from it.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from testbed import mounts, progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testbed.paths import Layout

BASE = "debian:bookworm-slim"
PAUSE = "sandkeeper.dev/testbed/pause"

MADE_LABEL = "sandkeeper.dev/testbed"
"""On images that we made."""

_REGISTRY_SECONDS = 8
_PULL_SECONDS = 120
_NO_REGISTRY_HOLDS = 24 * 3600.0

_PRUNED = ("boot", "proc", "sys", "dev", "run", "tmp", "usr/share/doc", "usr/share/man", "usr/share/info",
           "usr/share/locale", "usr/share/lintian", "var/lib/apt/lists", "var/cache", "var/log")  # fmt: skip
"""Emptied in the base image, as in the one of the same name that registries have."""


def ensure_base(engine: str, layout: Layout) -> bool:
    """See to it that an engine, named by its URL, has the base image; True if that took making it."""
    client = docker.DockerClient(base_url=engine, timeout=_PULL_SECONDS)
    try:
        try:
            client.images.get(BASE)
        except ImageNotFound:
            return not _pull(client, engine, layout) and _import_base(client, layout)
        return False
    finally:
        client.close()


def _import_base(client: docker.DockerClient, layout: Layout) -> bool:
    archive = ensure_base_archive(layout)
    with progress.step(f"Importing {BASE}", aloud=False):
        repository, _, tag = BASE.partition(":")
        client.api.import_image_from_file(
            str(archive),
            repository=repository,
            tag=tag,
            changes=['CMD ["bash"]', f"LABEL {MADE_LABEL}=base"],
        )
    # The engine tells of an import that failed halfway in its stream, not by a status.
    client.images.get(BASE)
    return True


def _pull(client: docker.DockerClient, engine: str, layout: Layout) -> bool:
    failed = layout.cache / "no-registry"
    if failed.exists() and 0 <= time.time() - failed.stat().st_mtime < _NO_REGISTRY_HOLDS:
        return False
    if not registry_has(engine, BASE):
        progress.say(f"{BASE} cannot be pulled here; not asking again for a day")
        failed.parent.mkdir(parents=True, exist_ok=True)
        failed.touch()
        return False
    try:
        with progress.step(f"Pulling {BASE}"):
            client.images.pull(BASE)
    except (DockerException, OSError):
        return False
    return True


def registry_has(engine: str, image: str) -> bool:
    """Ask whether an image could be pulled, without pulling it."""
    hasty = docker.DockerClient(base_url=engine, timeout=_REGISTRY_SECONDS)
    try:
        hasty.images.get_registry_data(image)
    except (DockerException, OSError):
        return False
    finally:
        hasty.close()
    return True


def check_base(engine: str) -> str | None:
    """Say what is wrong with an engine's base image, if anything is: the engine may not even answer."""
    try:
        with closing(docker.DockerClient(base_url=engine, timeout=_REGISTRY_SECONDS)) as client:
            client.images.get(BASE)
    except (DockerException, OSError) as error:
        return str(error)
    return None


def remove_base(engine: str) -> None:
    """Remove the base image from an engine that is not ours, if it is one that we made."""
    client = docker.DockerClient(base_url=engine, timeout=_PULL_SECONDS)
    try:
        if MADE_LABEL in (client.images.get(BASE).labels or {}):
            client.images.remove(BASE)
    except ImageNotFound:
        pass
    except APIError as error:
        # Somebody made a container of it: their engine, their container.
        progress.say(f"{BASE} stays: {error.explanation}")
    finally:
        client.close()


def ensure_base_archive(layout: Layout) -> Path:
    """Make the base image's archive, unless the cache has one made by these very lines."""
    archive = layout.cache / f"bookworm-{base_recipe()}.tar"
    if not archive.exists():
        layout.cache.mkdir(parents=True, exist_ok=True)
        with progress.step(f"Making {BASE} with debootstrap"):
            _make_base_archive(archive)
        progress.say(f"  {archive.name}: {archive.stat().st_size / 1e6:.0f} MB")
    return archive


def base_recipe() -> str:
    """Sum up how the base image is made."""
    recipe = inspect.getsource(_make_base_archive) + repr(_PRUNED)
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def _make_base_archive(archive: Path) -> None:
    root = Path(tempfile.mkdtemp(prefix="sandkeeper-base-"))
    draft = archive.with_suffix(f".{os.getpid()}")
    try:
        done = subprocess.run(
            [
                *("debootstrap", "--variant=minbase", "--include=ca-certificates,python3-minimal"),
                *("bookworm", str(root / "root")),
            ],
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"debootstrap failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        for name in _PRUNED:
            folder = root / "root" / name
            mode = folder.stat().st_mode if folder.exists() else 0o755
            mounts.unmount_below(folder)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            folder.chmod(mode & 0o7777)
        with tarfile.open(draft, "w") as tar:
            tar.add(root / "root", arcname=".")
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
        mounts.unmount_below(root)
        shutil.rmtree(root, ignore_errors=True)


def load_into_node(engine: str, image: str, layout: Layout) -> None:
    """Copy an image from an engine to the node; Pods name it in full (docker.io/library/...)."""
    client = docker.DockerClient(base_url=engine, timeout=_PULL_SECONDS)
    try:
        containerd_import(client.images.get(image).save(named=image), layout)
    finally:
        client.close()


def node_has(image: str, layout: Layout) -> bool:
    """Tell whether the node has an image of this full name."""
    return image in _ctr_images(layout, "list", "-q").split()


def remove_from_node(image: str, layout: Layout) -> None:
    """Remove an image from the node, by the name that it has in an engine."""
    rows = [line.split() for line in _ctr_images(layout, "list").splitlines()[1:]]
    digests = {row[0]: row[2] for row in rows}
    name = full_name(image)
    if name not in digests:
        return
    # The container runtime adds a name made of the image's id, which keeps the image as any name does.
    same = [other for other, digest in digests.items() if digest == digests[name] and other != name]
    ids = [other for other in same if other.startswith("sha256:")]
    _ctr_images(layout, "remove", "--sync", name, *(ids if ids == same else []))


def _ctr_images(layout: Layout, *arguments: str) -> str:
    done = subprocess.run(
        ["ctr", "--address", str(layout.containerd_socket), "-n", "k8s.io", "images", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"ctr images {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def full_name(image: str) -> str:
    """Give the name that Pods use for what an engine calls by a short one."""
    host = image.partition("/")[0]
    if "/" not in image:
        return f"docker.io/library/{image}"
    return image if "." in host or ":" in host or host == "localhost" else f"docker.io/{image}"


def containerd_import(archive: Iterable[bytes], layout: Layout) -> None:
    """Import an image's archive into the node's container runtime."""
    importing = subprocess.Popen(
        ["ctr", "--address", str(layout.containerd_socket), "-n", "k8s.io", "images", "import", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with importing:
        if importing.stdin is None or importing.stdout is None:
            raise RuntimeError("no pipes")
        try:
            for chunk in archive:
                importing.stdin.write(chunk)
            importing.stdin.close()
        except BrokenPipeError:
            pass  # It says why itself.
        output = importing.stdout.read().decode(errors="replace")
    if importing.returncode:
        raise RuntimeError(f"the node does not take the image: {output[-2000:]}")


def pause_name(program: Path) -> str:
    """Name the pause image after what is in it."""
    return f"{PAUSE}:{hashlib.sha256(program.read_bytes()).hexdigest()[:12]}"


def pause_archive(program: Path) -> bytes:
    """Make the pause image: one static program, and nobody's user. No engine is needed for it."""
    layer = _tar({"pause": (program.read_bytes(), 0o755)})
    config = json.dumps(
        {
            "architecture": os.uname().machine.replace("x86_64", "amd64").replace("aarch64", "arm64"),
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535", "Labels": {MADE_LABEL: "pause"}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        },
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [pause_name(program)], "Layers": ["layer.tar"]}]
    return _tar(
        {
            "config.json": (config, 0o644),
            "layer.tar": (layer, 0o644),
            "manifest.json": (json.dumps(manifest).encode(), 0o644),
        },
    )


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, (content, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()
