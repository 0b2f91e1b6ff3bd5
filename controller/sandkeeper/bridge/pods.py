"""Commands in a Pod, by the API server."""

import asyncio
from collections.abc import Sequence
from typing import Final

from sandkeeper.bridge.commands import Ended, Output
from sandkeeper.bridge.errors import Unavailable
from sandkeeper.cluster.api import ApiError, KubeApi, NotFound
from sandkeeper.cluster.commands import CommandFailed, run_command
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.resources import PODS
from sandkeeper.runtimes.pod.desired import CONTAINER

__all__ = ["PodExec"]

_RUNNING: Final = "Running"


class PodExec:
    """Runs commands in the Pod of this name, as long as it is the one with this UID."""

    def __init__(self, api: KubeApi, connection: Connection, *, namespace: str, name: str, uid: str) -> None:
        self._api = api
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._uid = uid

    async def __call__(self, command: Sequence[str], stdin: bytes, *, limit: int, seconds: float) -> Ended:
        """Run a command; see :class:`~sandkeeper.bridge.commands.Exec`."""
        output = Output(limit)
        try:
            async with asyncio.timeout(seconds):
                await self.prove()
                await run_command(
                    self._connection,
                    namespace=self._namespace,
                    pod=self._name,
                    container=CONTAINER,
                    command=command,
                    on_output=output.stdout,
                    on_error=output.stderr,
                    stdin=stdin,
                )
        except CommandFailed as error:
            return output.ended(self._code_of(error))
        except TimeoutError:
            raise self._unavailable(f"a command did not end within {seconds:g} seconds") from None
        except ApiError as error:
            raise self._unavailable(error.message) from error
        return output.ended(0)

    async def prove(self) -> None:
        """Make sure that it is the Pod that was recorded: another may have got its name."""
        try:
            pod = await self._api.get(PODS, namespace=self._namespace, name=self._name)
        except NotFound:
            raise self._unavailable("it is gone") from None
        if (uid := pod["metadata"]["uid"]) != self._uid:
            raise self._unavailable(f"it is another one than was recorded, by its UID {uid}")
        if (phase := pod["status"]["phase"]) != _RUNNING:
            raise self._unavailable(f"it does not run: it is {phase}")

    def _code_of(self, error: CommandFailed) -> int:
        if error.code is not None:
            return error.code
        if error.verdict.not_started is None:
            raise self._unavailable(f"a command was not run: {error.message}") from error
        return error.verdict.not_started[0]

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(f"Pod {self._namespace}/{self._name}: {why}")
