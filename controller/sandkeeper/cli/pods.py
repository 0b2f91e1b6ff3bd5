"""Commands in Pods, by the API server."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from sandkeeper.cli import terminal
from sandkeeper.cli.attachment import Begin
from sandkeeper.cli.channels import Channels, RefusedError
from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import Failure, plainly
from sandkeeper.cli.sandboxes import Object
from sandkeeper.cluster.streams import Stream, Verdict

__all__ = ["way_in"]

_CONTAINER: Final = "sandbox"
_RUNNING: Final = "Running"


@contextmanager
def way_in(cluster: Cluster, sandbox: Object) -> Iterator[Begin]:
    """Look for the Pod, which has to be the very one that was recorded."""
    name: str = sandbox["status"]["runtime"]["name"]
    _check(cluster, name, sandbox)

    @contextmanager
    def begin(command: Sequence[str], *, stdin: bool, tty: bool) -> Iterator[_Attachment]:
        with _connected(cluster, name, command, stdin=stdin, tty=tty) as channels:
            attachment = _Attachment(channels)
            if tty:
                attachment.resize()
            yield attachment

    yield begin


def _check(cluster: Cluster, name: str, sandbox: Object) -> None:
    pod = cluster.pod(name)
    whose = f"Pod {name!r} of Sandbox {sandbox['metadata']['name']!r}"
    if pod is None:
        raise Failure(f"{whose} is gone. An operator that runs makes another: try again in a moment.")
    if pod["metadata"]["uid"] != sandbox["status"]["runtime"]["id"]:
        raise Failure(
            f"{whose} is another one than was recorded, by its UID {pod['metadata']['uid']}. "
            "An operator that runs will say what it is: try again in a moment."
        )
    if (phase := pod["status"]["phase"]) != _RUNNING:
        raise Failure(f"{whose} does not run: it is {phase}.")


@contextmanager
def _connected(
    cluster: Cluster, name: str, command: Sequence[str], *, stdin: bool, tty: bool
) -> Iterator[Channels]:
    what = f"run a command in Pod {name!r}"
    # With a terminal, the command has one stream for all that it prints.
    wanted = {
        "container": _CONTAINER,
        "stdin": stdin,
        "stdout": True,
        "stderr": not tty,
        "tty": tty,
    }
    params = [(key, str(value).lower()) for key, value in wanted.items()]
    params += [("command", word) for word in command]
    path = f"{cluster.path_of_pod(name)}/exec"
    try:
        with plainly(what):
            channels = Channels(cluster.client, path, params)
    except RefusedError as error:
        with plainly(what):
            cluster.read(path, params)
        raise Failure(f"Cannot {what}: {error}") from error
    with channels:
        yield channels


class _Attachment:
    """The streams of one command."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._verdict: bytes | None = None

    def send(self, data: bytes) -> None:
        self._channels.send(Stream.STDIN, data)

    def end_input(self) -> None:
        self._channels.end(Stream.STDIN)

    def output(self) -> Iterator[tuple[int, bytes]]:
        try:
            while (message := self._channels.receive()) is not None:
                channel, data = message
                if channel in {Stream.STDOUT, Stream.STDERR}:
                    yield channel, data
                elif channel == Stream.VERDICT:
                    # It comes after all output; who waits for the farewell waits for input to be taken, too.
                    self._verdict = data
                    return
        except ConnectionError as error:
            raise _lost(str(error)) from error

    def resize(self) -> None:
        rows, columns = terminal.size()
        self._channels.post(Stream.SIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def exit_code(self) -> int:
        if self._verdict is None:
            raise _lost("the API server did not say how it ended")
        verdict = Verdict.parse(self._verdict)
        if verdict.code is not None:
            return verdict.code
        if verdict.not_started is None:
            raise Failure(f"The command was not run: {verdict.message}")
        code, why = verdict.not_started
        click.echo(why, err=True)
        return code


def _lost(why: str) -> Failure:
    return Failure(f"The connection to the command was lost, and it may still run: {why}")
