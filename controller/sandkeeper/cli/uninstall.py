"""``sandkeeper uninstall``: what the chart runs when the operator goes for good.

Deleting comes while the operator is there, which removes what runs. Releasing comes after it: a finalizer that only the
operator would have taken off keeps a Sandbox, and its namespace, for ever.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import click

from sandkeeper.api.names import FINALIZER
from sandkeeper.cluster.api import ApiError, KubeApi, NotFound, Object
from sandkeeper.cluster.connection import Connection
from sandkeeper.cluster.leadership import Leadership
from sandkeeper.cluster.leases import leader_name, record_name
from sandkeeper.cluster.resources import LEASES, SANDBOXES
from sandkeeper.telemetry.logs import set_up_logging
from sandkeeper.telemetry.metrics import Metrics

__all__ = ["command"]

logger = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 1.0


@click.group("uninstall")
def command() -> None:
    """Do what is to be done when the operator is uninstalled; the chart runs it."""


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--namespace", required=True, help="Where the operator is, or was."),
        click.option("--release", required=True, help="The name of its installation."),
        click.option(
            "--watch-namespace", "served", multiple=True, help="A namespace that it serves; none named: all."
        ),
    ):
        function = option(function)
    return function


@command.command("delete-sandboxes")
@_options
def delete_sandboxes(namespace: str, release: str, served: tuple[str, ...]) -> None:
    """Delete every Sandbox that is served, and wait until they are gone; the operator has to be there."""
    set_up_logging(verbose=False)
    logger.info("Deleting all Sandboxes that %s/%s serves", namespace, release)
    asyncio.run(_until_done(lambda api: _delete(api, served)))


@command.command("release-finalizers")
@_options
def release_finalizers(namespace: str, release: str, served: tuple[str, ...]) -> None:
    """Take the operator's finalizer off every Sandbox, once no operator holds the lease any more."""
    set_up_logging(verbose=False)
    asyncio.run(_until_done(lambda api: _release(api, namespace, release, served)))


async def _until_done(attempt: Callable[[KubeApi], Awaitable[bool]]) -> None:
    """Try until it is done. Whoever runs us sets the time limit."""
    connection = Connection()
    try:
        while True:
            try:
                if await attempt(KubeApi(connection, metrics=Metrics())):
                    return
            except ApiError as error:
                logger.warning("Trying again: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)
    finally:
        await connection.close()


async def _sandboxes(api: KubeApi, served: Sequence[str]) -> AsyncIterator[Object]:
    for namespace in served or (None,):
        async for page, _version in api.pages(SANDBOXES, namespace=namespace):
            for raw in page:
                yield raw


async def _delete(api: KubeApi, served: Sequence[str]) -> bool:
    """Delete what is there; return whether nothing was."""
    left = 0
    try:
        async for raw in _sandboxes(api, served):
            left += 1
            metadata = raw["metadata"]
            if "deletionTimestamp" not in metadata:
                await api.delete(
                    SANDBOXES, name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
                )
    except NotFound:
        return True  # the kind is not known, and so there is none
    if left:
        logger.info("Waiting for %d Sandboxes to go", left)
    return not left


async def _release(api: KubeApi, namespace: str, release: str, served: Sequence[str]) -> bool:
    """Release what is there, as the holder of the lease."""
    async with _leading(api, namespace, release):
        try:
            released = [await _let_go(api, raw) async for raw in _sandboxes(api, served)]
        except NotFound:
            return True  # the kind is not known, and so there is none
    logger.info("Released %d of %d Sandboxes", sum(released), len(released))
    return True


async def _let_go(api: KubeApi, raw: Object) -> bool:
    """Take our finalizer off; return whether it was on. What changes meanwhile is a Conflict, and tried again."""
    metadata = raw["metadata"]
    finalizers = metadata.get("finalizers", [])
    if FINALIZER not in finalizers:
        return False
    others = [name for name in finalizers if name != FINALIZER]
    guard = {name: metadata[name] for name in ("uid", "resourceVersion")}
    body = {"metadata": {"finalizers": others or None, **guard}}
    with suppress(NotFound):
        await api.patch(SANDBOXES, body, name=metadata["name"], namespace=metadata["namespace"])
    return True


@asynccontextmanager
async def _leading(api: KubeApi, namespace: str, release: str) -> AsyncIterator[None]:
    """Hold the lease as an operator would, so that none acts meanwhile; then nobody needs it any more."""
    leadership = Leadership(
        api, namespace=namespace, release=release, identity=f"{socket.gethostname()}_{os.getpid()}"
    )
    held = asyncio.Event()

    def tell(_lost: Collection[int], gained: Collection[int]) -> None:
        (held.set if gained else held.clear)()

    seeking = asyncio.create_task(leadership.run(tell))
    try:
        logger.info("Waiting until no operator holds the lease %s/%s", namespace, leader_name(release))
        await held.wait()
        api.may_write = leadership.check
        yield
    finally:
        seeking.cancel()
    for name in (leader_name(release), record_name(release)):
        with suppress(NotFound):
            lease = await api.get(LEASES, name=name, namespace=namespace)
            await api.delete(LEASES, name=name, namespace=namespace, uid=lease["metadata"]["uid"])
