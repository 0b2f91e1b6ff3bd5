"""``sandkeeper exec``: a command in a sandbox."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from sandkeeper.api.policy import Backend
from sandkeeper.cli import terminal
from sandkeeper.cli.attachment import WayIn, join
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import Failure
from sandkeeper.cli.keepalive import KeptAlive, interval_of
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.cli.sandboxes import Object, ready_of
from sandkeeper.cli.waiting import wait_until_ready

__all__ = ["command"]


class _NotTheCommand(Failure):
    """It was we who failed. Docker has the same code for that."""

    exit_code = 125


_WAYS_IN: Final[Mapping[str, str]] = {Backend.DOCKER: "containers", Backend.POD: "pods"}


@click.command("exec")
@click.argument("name")
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal.")
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for the Sandbox to be ready.",
)
@speaks_to_cluster
def command(
    cluster: Cluster, name: str, arguments: tuple[str, ...], seconds: float, *, stdin: bool, tty: bool
) -> None:
    """Run a command in the sandbox of NAME, and end with its exit code.

    It runs as the sandbox's user in its working directory; nothing of the caller's environment goes with it. While it
    runs, the sandbox counts as used. Where it is not the command that fails but we, the exit code is 125.
    """
    if tty and not terminal.is_terminal():
        click.echo("Standard input is no terminal, so the command gets none either.", err=True)
        tty = False
    try:
        sandbox = wait_until_ready(cluster, cluster.touch(name), seconds=seconds)
        code = _run(cluster, sandbox, arguments, stdin=stdin, tty=tty)
    except Failure as failure:
        raise _NotTheCommand(failure.message) from failure
    sys.exit(code)


def _run(cluster: Cluster, sandbox: Object, arguments: tuple[str, ...], *, stdin: bool, tty: bool) -> int:
    way_in = _way_into(sandbox)
    with (
        way_in(cluster, sandbox) as begin,
        KeptAlive(cluster, sandbox["metadata"]["name"], interval=interval_of(cluster, sandbox)),
        begin(arguments, stdin=stdin, tty=tty) as attachment,
    ):
        return join(attachment, stdin=stdin, tty=tty)


def _way_into(sandbox: Object) -> WayIn:
    name, runtime = sandbox["metadata"]["name"], sandbox["status"].get("runtime")
    if runtime is None:
        raise Failure(
            f"Sandbox {name!r} has no runtime to run a command in: {ready_of(sandbox)}. "
            "Where its policy says mode off, the agent's commands run on the host."
        )
    # Each imports what is slow to import, and that the other does not need.
    found: WayIn = import_module(f"sandkeeper.cli.{_WAYS_IN[runtime['backend']]}").way_in
    return found
