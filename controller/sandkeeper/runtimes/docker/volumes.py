"""The volume of a sandbox that has nothing on the host: anonymous, so that it goes with the container.

An engine makes the root of a volume root's, unless the image has a directory in its place: then it becomes like that
one. Images made for sandboxes have one that belongs to the sandbox's user. With any other image the volume is given to
the user before the container first starts. A sandbox's own file system may be read-only, and then the engine lets us
change what is in a volume, but not its root. So for a moment a second container has the volume as well, which is never
started, and whose file system is not.
"""

import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from docker import APIClient
from docker.errors import APIError

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import SandkeeperError
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import labels
from sandkeeper.runtimes.docker.containers import answered
from sandkeeper.runtimes.docker.engine import Engine
from sandkeeper.runtimes.docker.inspection import Inspection
from sandkeeper.runtimes.docker.layout import user_ids
from sandkeeper.runtimes.docker.watch import Watch

__all__ = ["Volumes"]

_MODE: Final = 0o755
_OWNER_MAY_ALL: Final = 0o700
_OTHERS_MAY_ALL: Final = 0o007
_NO_CONFIG: Final = "v0-volume"
"""In place of a configuration's hash: if such a container is left by a crash, it is replaced and never used."""


class Volumes:
    """Gives volumes to the users of sandboxes."""

    def __init__(self, engine: Engine, *, watch: Watch, installation: str) -> None:
        self._engine = engine
        self._watch = watch
        self._installation = installation
        self._suits: dict[tuple[str, str, str], bool] = {}
        """By image id, directory and user, whether a volume becomes theirs by itself."""

    async def give(self, key: RuntimeKey, container: Inspection) -> None:
        """Give the volume at the working directory, if there is one, to the user of a container that never ran."""
        container_id, image, config = container["Id"], container["Image"], container["Config"]
        workdir, user = config["WorkingDir"], config["User"]
        mounts = container["HostConfig"].get("Mounts") or ()
        if not any(mount["Type"] == "volume" and mount["Target"] == workdir for mount in mounts):
            return
        what = image, workdir, user
        with answered(Reason.CREATE_FAILED, "giving the workspace to the sandbox's user"):
            if what not in self._suits:
                self._suits[what] = await self._engine.call(partial(_suits, container_id, workdir, user))
            if not self._suits[what]:
                async with self._borrower(key, container_id, image) as borrower:
                    await self._engine.change(
                        partial(_give, borrower, workdir, user), namespace=key.namespace
                    )

    @asynccontextmanager
    async def _borrower(self, key: RuntimeKey, container_id: str, image: str) -> AsyncIterator[str]:
        body = {
            "Image": image,
            "Entrypoint": [""],
            "Cmd": ["false"],
            "Labels": labels(key, installation=self._installation, config_hash=_NO_CONFIG),
            "HostConfig": {"NetworkMode": "none", "VolumesFrom": [container_id]},
        }
        make = partial(APIClient.create_container_from_config, config=body)
        borrower = str((await self._engine.change(make, namespace=key.namespace))["Id"])
        self._watch.note(borrower, key, running=False)
        try:
            yield borrower
        finally:
            # Beforehand, so that the event of our own doing is no news.
            self._watch.forget(borrower)
            with suppress(SandkeeperError, APIError):  # what is left goes with the sandbox
                remove = partial(APIClient.remove_container, container=borrower)
                await self._engine.change(remove, namespace=key.namespace)


def _suits(container_id: str, workdir: str, user: str, client: APIClient) -> bool:
    url = f"{client.base_url}/v{client.api_version}/containers/{container_id}/archive"
    plain = {"Accept-Encoding": "identity"}
    with client.get(
        url, params={"path": workdir}, headers=plain, stream=True, timeout=client.timeout
    ) as answer:
        if not answer.ok:
            raise APIError(answer.reason, response=answer, explanation=answer.text)
        with tarfile.open(fileobj=answer.raw, mode="r|") as archive:
            root = archive.next()
    if root is None or not root.isdir():
        return False
    is_owner = root.uid == user_ids(user)[0] and root.mode & _OWNER_MAY_ALL == _OWNER_MAY_ALL
    return is_owner or root.mode & _OTHERS_MAY_ALL == _OTHERS_MAY_ALL


def _give(container_id: str, workdir: str, user: str, client: APIClient) -> None:
    directory = tarfile.TarInfo(workdir.lstrip("/"))
    directory.type, directory.mode = tarfile.DIRTYPE, _MODE
    directory.uid, directory.gid = user_ids(user)
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(directory)
    client.put_archive(container_id, "/", sink.getvalue())
