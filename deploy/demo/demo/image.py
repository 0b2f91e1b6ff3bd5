"""The image of the household's sandboxes, built on the engine that runs them."""

import hashlib
from typing import Final

import docker
from docker.errors import BuildError, ImageNotFound

from demo.places import SOURCE
from testbed import images, progress
from testbed.paths import Layout

TAG: Final = "sandkeeper-sandbox:bookworm-slim"
PACKAGES: Final = "bash ca-certificates jq"
"""Not the whole list of the Dockerfile: the story needs little, and every package takes its time."""

_FOLDER: Final = SOURCE / "deploy" / "images" / "sandbox"
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
                path=str(_FOLDER), tag=TAG, buildargs={"PACKAGES": PACKAGES}, labels={_LABEL: digest}, rm=True
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


def _label(client: docker.DockerClient) -> str | None:
    """Read from what the image was built; empty: not by us; None: there is none."""
    try:
        return str((client.images.get(TAG).labels or {}).get(_LABEL, ""))
    except ImageNotFound:
        return None
