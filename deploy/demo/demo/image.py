"""The image of the household's sandboxes, built on the engine, and copied to the node for Pods."""

import hashlib
from typing import Final

import docker
from docker.errors import BuildError, ImageNotFound

from demo.places import SOURCE, Places
from testbed import bed, files, images, progress
from testbed.paths import Layout

TAG: Final = "sandkeeper-sandbox:bookworm-slim"
PACKAGES: Final = "bash ca-certificates jq python3"
"""Not the whole list of the Dockerfile: the story needs little, and every package takes its time."""

_FOLDER: Final = SOURCE / "deploy" / "images" / "base"
_LABEL: Final = "sandkeeper.dev/demo"
_BUILD_SECONDS: Final = 600


def ensure(engine: str, layout: Layout) -> None:
    """See to it that the engine has the image; one of that name that is not ours is taken as it is."""
    images.ensure_base(engine, layout)
    recipe = (_FOLDER / "Dockerfile").read_text(encoding="utf-8") + PACKAGES
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:16]
    client = docker.DockerClient(base_url=engine, timeout=_BUILD_SECONDS)
    try:
        if _label(client) in {digest, ""}:
            return
        with progress.step(f"Building {TAG}"):
            client.images.build(
                path=str(_FOLDER),
                tag=TAG,
                buildargs={"BASE_IMAGE": images.BASE, "PACKAGES": PACKAGES},
                labels={_LABEL: digest},
                rm=True,
            )
    except BuildError as error:
        tail = "".join(str(line.get("stream", "")) for line in error.build_log)
        raise RuntimeError(f"{TAG} cannot be built: {error}\n{tail[-2000:]}") from error
    finally:
        client.close()


def remove(engine: str) -> None:
    """Remove the image if we built it."""
    client = docker.DockerClient(base_url=engine, timeout=_BUILD_SECONDS)
    try:
        if _label(client):
            client.images.remove(TAG)
    finally:
        client.close()


def load(places: Places, known: bed.Bed) -> None:
    """See to it that the node has the engine's image."""
    client = docker.DockerClient(base_url=known.docker_host, timeout=_BUILD_SECONDS)
    try:
        found = str(client.images.get(TAG).id)
    finally:
        client.close()
    noted = places.loaded.read_text(encoding="utf-8") if places.loaded.exists() else ""
    if noted == found and images.node_has(images.full_name(TAG), places.layout):
        return
    files.ensure(places.loaded, "")
    with progress.step(f"Loading {TAG} into the node"):
        bed.load_image(places.layout, known, TAG)
    files.ensure(places.loaded, found)


def unload(places: Places, known: bed.Bed) -> None:
    """Take it off the node if we put it there."""
    if places.loaded.exists():
        bed.unload_image(places.layout, known, TAG)


def _label(client: docker.DockerClient) -> str | None:
    """Read from what the image was built; empty: not by us; None: there is none."""
    try:
        return str((client.images.get(TAG).labels or {}).get(_LABEL, ""))
    except ImageNotFound:
        return None
