"""Whether the operator sees the engine's host: the same directories under the same names.

All checks of sources are worth nothing on another file system than the engine's. So before a bind root is relied on,
the operator makes a directory in it, with a name that nobody can know, and asks the engine whether it is there. That
tells the engine's host from any other, and the right mounts of an operator in a container from wrong ones, whatever it
is that runs the container.

The engine is asked for a container that it cannot create: it looks for the sources of mounts first, and only then for
an image of which there is none. So nothing is ever made there.
"""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from docker import APIClient
from docker.errors import APIError, ImageNotFound

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient
from sandkeeper.config.binds import normalise_path
from sandkeeper.runtimes.docker import failures
from sandkeeper.runtimes.docker.engine import Engine
from sandkeeper.runtimes.docker.host import Host
from sandkeeper.runtimes.docker.sources import reason_of

__all__ = ["Sight"]

_LOG = logging.getLogger(__name__)

_SIGN: Final = ".sandkeeper-sight-"
_ANYWHERE: Final = "/"
"""Where a root cannot be written to, the whole file system stands for it: only the host itself has its root there."""


class Sight:
    """Remembers what was proven, for as long as the engine and the directory are the same."""

    def __init__(self, engine: Engine, host: Host) -> None:
        self._engine = engine
        self._host = host
        self._proven: dict[str, tuple[str | None, tuple[int, int]]] = {}

    async def prove(self, roots: Iterable[str]) -> None:
        """Permanent with BIND_REFUSED where the operator does not see what the engine sees at one of the roots."""
        for root in map(normalise_path, roots):
            await self._engine.client()
            engine = self._engine.identity
            directory = await self._host.run(partial(_identity_of, root))
            if self._proven.get(root) == (engine, directory):
                continue
            await self._compare(root)
            if self._engine.identity != engine:
                raise Transient(
                    Reason.ENGINE_UNREACHABLE, "The Docker engine is another one than a moment ago."
                )
            self._proven[root] = engine, directory

    async def tell(self, roots: Iterable[str]) -> None:
        """Log which roots the operator does not see."""
        for root in roots:
            try:
                await self.prove([root])
            except SandkeeperError as error:
                _LOG.warning("Nothing can be bound below %s: %s", root, error.message)

    async def _compare(self, root: str) -> None:
        sign = await self._host.run(partial(_make_sign, root))
        try:
            is_there = await self._engine.call(partial(_is_there, path=sign))
        except APIError as error:
            message = f"The engine does not say what it finds at {root}: {failures.explain(error)}"
            raise Transient(Reason.BIND_REFUSED, message) from error
        finally:
            await self._host.run(partial(_remove_sign, sign))
        if is_there:
            return
        if str(Path(sign).parent) != root:
            raise _unseen(
                root, "the operator may not write there, and so cannot compare it with what the engine finds"
            )
        raise _unseen(root, "what the operator finds there is not what the Docker engine finds")


def _identity_of(root: str) -> tuple[int, int]:
    try:
        status = Path(root).stat()
    except OSError as error:
        raise _unseen(root, f"as the operator sees it, {reason_of(error)}") from None
    return status.st_dev, status.st_ino


def _make_sign(root: str) -> str:
    for directory in (root, _ANYWHERE):
        sign = Path(directory, f"{_SIGN}{os.urandom(16).hex()}")
        with suppress(OSError):
            sign.mkdir(mode=0o700)
            return str(sign)
    raise _unseen(
        root, "the operator may not write anywhere, and so cannot compare it with what the engine finds"
    )


def _remove_sign(sign: str) -> None:
    with suppress(OSError):
        Path(sign).rmdir()


def _is_there(client: APIClient, *, path: str) -> bool:
    mount = {"Type": "bind", "Source": path, "Target": "/sight", "ReadOnly": True}
    image = f"sandkeeper-sight-{os.urandom(16).hex()}:none"
    create: Any = client.create_container_from_config
    try:
        made = create({"Image": image, "HostConfig": {"Mounts": [mount]}})
    except ImageNotFound:
        return True
    except APIError as error:
        if failures.is_source_missing(error):
            return False
        raise
    client.remove_container(made["Id"])
    raise APIError(f"it has an image {image}")


def _unseen(root: str, why: str) -> Permanent:
    return Permanent(
        Reason.BIND_REFUSED,
        f"{root} of ceilings.bindRoots cannot be used: {why}. The operator has to see the directories of the engine's "
        f"host under the same paths, to check what is bound; where it runs in a container there, mount it so: "
        f"-v {root}:{root}",
    )
