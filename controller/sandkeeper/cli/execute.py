"""``sandkeeper exec``: a command in a sandbox."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from sandkeeper.api.policy import Backend
from sandkeeper.cli import terminal
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import Failure
from sandkeeper.cli.keepalive import KeptAlive, interval_of
from sandkeeper.cli.options import speaks_to_cluster
from sandkeeper.cli.sandboxes import Object, ready_of
from sandkeeper.cli.waiting import wait_until_ready

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["command"]


class _NotTheCommand(Failure):
    """It was we who failed. Docker has the same code for that."""

    exit_code = 125


_ENGINE_SECONDS: Final = 60


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
    container = _container_of(sandbox)
    with _engine(sandbox["status"]["runtime"].get("node", "")) as client:
        from sandkeeper.cli.attachment import run_attached  # noqa: PLC0415 - imports docker

        with KeptAlive(cluster, sandbox["metadata"]["name"], interval=interval_of(cluster, sandbox)):
            return run_attached(client, container, arguments, stdin=stdin, tty=tty)


def _container_of(sandbox: Object) -> str:
    name, runtime = sandbox["metadata"]["name"], sandbox["status"].get("runtime")
    if runtime is None:
        raise Failure(
            f"Sandbox {name!r} has no runtime to run a command in: {ready_of(sandbox)}. "
            "Where its policy says mode off, the agent's commands run on the host."
        )
    if runtime["backend"] != Backend.DOCKER:
        raise Failure(
            f"The runtime of Sandbox {name!r} is a {runtime['backend']}, and this version runs commands in Docker "
            f"containers only. For a Pod: kubectl exec -n {sandbox['metadata']['namespace']} {runtime['name']} -- ..."
        )
    container: str = runtime["id"]
    return container


@contextmanager
def _engine(identity: str) -> Iterator["APIClient"]:
    """Connect to the engine of $DOCKER_HOST, which has to be the one that the runtime is on."""
    import requests  # noqa: PLC0415 - slow to import
    from docker import APIClient  # noqa: PLC0415 - slow to import
    from docker.errors import APIError, DockerException  # noqa: PLC0415 - slow to import
    from docker.utils import kwargs_from_env  # noqa: PLC0415 - slow to import

    client = None
    try:
        client = APIClient(version="auto", timeout=_ENGINE_SECONDS, **kwargs_from_env())
        found = client.info()["ID"]
        if identity and found != identity:
            raise Failure(
                f"The runtime is on the Docker engine {identity}, but $DOCKER_HOST leads to {found}: "
                "name the right one."
            )
        yield client
    except APIError as error:
        raise Failure(f"The Docker engine refused: {error.explanation or error}") from error
    except BrokenPipeError:
        raise  # whoever reads our output has gone, which is no fault of the engine
    except (DockerException, requests.RequestException, OSError) as error:
        raise Failure(f"The Docker engine was not reached: {error}") from error
    finally:
        if client is not None:
            client.close()
