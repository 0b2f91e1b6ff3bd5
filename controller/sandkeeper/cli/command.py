"""The group of subcommands. Each is imported when it is asked for, so that the light ones start fast."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from sandkeeper import __version__

__all__ = ["main"]

_MODULES: Final[Mapping[str, str]] = {
    "convert": "convert",
    "exec": "execute",  # exec is a builtin's name
    "explain": "explain",
    "get": "get",
    "hold": "hold",
    "recreate": "recreate",
    "run": "run",
    "touch": "touch",
    "uninstall": "uninstall",
}


class _Lazy(click.Group):
    """A group that knows its commands by name only."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _MODULES:
            return None
        command: click.Command = import_module(f"sandkeeper.cli.{_MODULES[cmd_name]}").command
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sandkeeper")
def main() -> None:
    """Keep isolated places for AI agents to run code in: ready, reused while hot, gone when idle."""
