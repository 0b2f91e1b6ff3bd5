"""Setting the stage, and clearing it.

Whatever is made here goes again, however the run ends.
"""

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
import docker
from docker import APIClient
from docker.errors import APIError

from bench.bare import Bare
from bench.figures import Json
from bench.kube import Kube, Watch, sandboxes
from bench.stage import POD_POLICY, Stage
from sandkeeper.api.names import Label
from sandkeeper.runtimes.docker.transport import connect_to
from support.cluster import Cluster, Users
from support.crds import install_crds
from support.engine import import_tiny
from support.pods import POD_IMAGE
from testbed import bed, progress
from testbed.bed import Bed
from testbed.fake_nodes import fake_nodes
from testbed.paths import Layout

__all__ = ["staged"]

_CALL_SECONDS = 60
_AT_ONCE = 8


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Set the stage, and clear it."""
    layout = Layout.from_environment(os.environ)
    async with AsyncExitStack() as stack:
        known = stack.enter_context(_cluster(layout))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandkeeper-bench-")))
        progress.say("Setting the stage")
        kube = Kube(Path(known.kubeconfig))
        stack.push_async_callback(kube.close)
        await asyncio.to_thread(_install_crds, layout, known)
        client = connect_to(known.docker_host)(_CALL_SECONDS)
        stack.callback(client.close)
        image = await asyncio.to_thread(_make_image, known.docker_host)
        stack.callback(_remove_image, client, image)
        namespace = f"bench-{secrets.token_hex(4)}"
        body = {"metadata": {"name": namespace}}
        await kube.request("POST", "/api/v1/namespaces", body=body)
        stack.push_async_callback(_clear, kube, client, namespace)
        watch = await stack.enter_async_context(Watch(kube, namespace))
        stage = Stage(
            kube=kube,
            watch=watch,
            engine=client,
            bare=Bare(client, namespace=namespace, policy={"container": {"image": image}}),
            namespace=namespace,
            image=image,
            provider=known.provider.value,
            folder=folder,
            environ=os.environ
            | {
                "KUBECONFIG": known.kubeconfig,
                "DOCKER_HOST": known.docker_host,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
            make_nodes=lambda count: fake_nodes(layout, known, count=count, prefix="bench"),
        )
        await stage.policy("default")
        await stage.policy(POD_POLICY, backend="pod", container={"image": POD_IMAGE})
        yield stage


@contextmanager
def _cluster(layout: Layout) -> Iterator[Bed]:
    """Use what is up, or bring it up for as long as it takes; counted among its users, so that it stays."""
    users = Users(layout)
    users.join()
    try:
        known = bed.load(layout)
        assert known is not None
        yield known
    finally:
        users.leave()


def _install_crds(layout: Layout, known: Bed) -> None:
    cluster = Cluster(
        kubeconfig=Path(known.kubeconfig),
        docker_host=known.docker_host,
        server="",
        program=f"{known.bin_dir}/kubectl" if known.bin_dir else "kubectl",
        layout=layout,
    )
    install_crds(cluster)


def _make_image(url: str) -> str:
    client = docker.DockerClient(base_url=url, timeout=_CALL_SECONDS)
    try:
        return import_tiny(client)
    finally:
        client.close()


def _remove_image(client: APIClient, image: str) -> None:
    with suppress(APIError):
        client.remove_image(image, force=True)


async def _clear(kube: Kube, client: APIClient, namespace: str) -> None:
    """Remove what the namespace has, on both sides; the operator is gone, so its finalizers are ours to take off."""
    progress.say("Clearing the stage")
    # A call that was interrupted goes on in its thread; what it makes is to be seen below.
    await asyncio.get_running_loop().shutdown_default_executor()
    listed = await kube.request("GET", sandboxes(namespace))
    await kube.request("DELETE", sandboxes(namespace))
    for found in listed["items"]:
        with suppress(aiohttp.ClientResponseError):
            path = sandboxes(namespace, found["metadata"]["name"])
            await kube.request("PATCH", path, body={"metadata": {"finalizers": None}})
    _remove_containers(client, namespace)
    with suppress(aiohttp.ClientResponseError):
        await kube.request("DELETE", f"/api/v1/namespaces/{namespace}")


def _remove_containers(client: APIClient, namespace: str) -> None:
    def remove(container: Json) -> None:
        with suppress(APIError):
            client.remove_container(container["Id"], force=True, v=True)

    filters = {"label": f"{Label.NAMESPACE}={namespace}"}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(remove, client.containers(all=True, filters=filters)))
