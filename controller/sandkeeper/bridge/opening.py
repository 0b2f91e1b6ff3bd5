"""The way from a Sandbox that runs to its files."""

from pydantic import ValidationError

from sandkeeper.api.policy import Backend
from sandkeeper.api.sandbox import RuntimeRecord, SandboxStatus
from sandkeeper.bridge.containers import ContainerExec
from sandkeeper.bridge.errors import Unavailable
from sandkeeper.bridge.files import FileBridge
from sandkeeper.bridge.pods import PodExec
from sandkeeper.bridge.table import MountTable
from sandkeeper.cluster.api import KubeApi, Object
from sandkeeper.cluster.connection import Connection
from sandkeeper.config.mounts import mount_points
from sandkeeper.config.resolution import RuntimeConfig
from sandkeeper.runtimes.docker.commands import CommandLost, Commands

__all__ = ["Bridges"]


class Bridges:
    """Opens bridges, on both backends. It closes nothing of what it is given."""

    def __init__(self, *, api: KubeApi, connection: Connection, commands: Commands) -> None:
        self._api = api
        self._connection = connection
        self._commands = commands

    async def open(self, sandbox: Object, config: RuntimeConfig) -> FileBridge:
        """Open a bridge into what the Sandbox's status says it runs in.

        ``config`` is what the runtime was made from. Where that is not what is wanted any more (``Drifted``), a mount
        that is another by now is refused, whatever the table says. Unavailable: there is nothing to open, or what is
        there is not what was recorded.
        """
        record = _record_of(sandbox)
        points = mount_points(config)
        if record.backend != Backend.DOCKER:
            namespace = sandbox["metadata"]["namespace"]
            run = PodExec(self._api, self._connection, namespace=namespace, name=record.name, uid=record.id)
            await run.prove()
            return FileBridge(MountTable.of(points), run)
        try:
            found = await self._commands.find(record.id)
        except CommandLost as error:
            raise Unavailable(f"container {record.name}: {error}") from error
        if record.node and found.engine != record.node:
            raise Unavailable(
                f"container {record.name} is on the Docker engine {record.node}, but this is {found.engine}: "
                "connect to the right one"
            )
        if not found.running:
            raise Unavailable(f"container {record.name} does not run")
        return FileBridge(MountTable.of(points, hosts=found.binds), ContainerExec(self._commands, record.id))


def _record_of(sandbox: Object) -> RuntimeRecord:
    name = sandbox["metadata"]["name"]
    try:
        record = SandboxStatus.model_validate(sandbox.get("status") or {}).runtime
    except ValidationError as error:
        raise Unavailable(f"the status of Sandbox {name!r} cannot be read") from error
    if record is None:
        raise Unavailable(
            f"Sandbox {name!r} runs nowhere at the moment: touch it, and wait until it is Ready"
        )
    return record
