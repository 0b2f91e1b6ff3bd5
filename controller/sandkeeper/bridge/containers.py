"""Commands in a container, by its Docker engine."""

from collections.abc import Sequence

from sandkeeper.bridge.commands import Ended, Output
from sandkeeper.bridge.errors import Unavailable
from sandkeeper.runtimes.docker.commands import CommandLost, Commands

__all__ = ["ContainerExec"]


class ContainerExec:
    """Runs commands in one container. Its id is proof enough: no other has it, on any engine."""

    def __init__(self, commands: Commands, container: str) -> None:
        self._commands = commands
        self._container = container

    async def __call__(self, command: Sequence[str], stdin: bytes, *, limit: int, seconds: float) -> Ended:
        """Run a command; see :class:`~sandkeeper.bridge.commands.Exec`."""
        output = Output(limit)
        try:
            code = await self._commands.run(
                self._container,
                command,
                stdin,
                on_output=output.stdout,
                on_error=output.stderr,
                seconds=seconds,
            )
        except CommandLost as error:
            raise Unavailable(f"container {self._container[:12]}: {error}") from error
        return output.ended(code)
