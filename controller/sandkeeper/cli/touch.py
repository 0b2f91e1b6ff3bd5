"""``sandkeeper touch``: a use."""

import click

from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.cli.sandboxes import ready_of
from sandkeeper.cli.waiting import wait_until_ready

__all__ = ["command"]


@click.command("touch")
@click.argument("name")
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Wait so long for Ready=True; the exit code says whether it came.",
)
@speaks_to_cluster
def command(cluster: Cluster, name: str, seconds: float | None) -> None:
    """Record a use of the Sandbox NAME, now.

    A Sandbox that says Ready=True in the answer may be relied on for the policy's hot window. One that was pruned
    comes back; --wait waits for it.
    """
    sandbox = cluster.touch(name)
    if seconds is not None:
        sandbox = wait_until_ready(cluster, sandbox, seconds=seconds)
    click.echo(f"{sandbox['metadata']['namespace']}/{name}: {ready_of(sandbox)}")
