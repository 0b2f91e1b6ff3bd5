"""The Docker backend in a storm: containers on an engine that nobody else uses, and others' containers beside them."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import requests
import urllib3
from docker import APIClient, DockerClient
from docker.errors import APIError, DockerException

from chaos.client import Client, Json
from chaos.engine_proxy import EngineProxy
from chaos.history import History
from chaos.model import SeenRuntime
from chaos.pods import MARK
from chaos.scene import Operated, Scene, configuration, operator_environment
from sandkeeper.api.names import MANAGED_BY, Label
from sandkeeper.runtimes.docker.transport import connect_to
from support.cluster import new_namespace, shared_cluster
from support.crds import install_crds
from support.engine import import_tiny
from support.proxy import ApiProxy
from testbed.engine import Engine

__all__ = ["LOST", "DockerSide", "inspected", "on_own_engine"]

_CALL_SECONDS: Final = 20.0
_TRIES_SECONDS: Final = 90.0
_PAUSE: Final = 0.3
_STRANGER: Final = "somebody-else"
LOST: Final = (requests.RequestException, urllib3.exceptions.HTTPError, DockerException, OSError, ValueError)
"""What is raised where an engine gives no answer, or one that is an error."""
_ENDS: Final = frozenset({"die", "destroy"})
_ASKED_TO_END: Final = frozenset({"kill", "destroy"})

P = ParamSpec("P")
T = TypeVar("T")


class DockerSide:
    """Containers of one namespace on one engine. What is asked here goes straight to it, past the proxy."""

    def __init__(self, engine: Engine, proxy: EngineProxy, *, namespace: str, image: str) -> None:
        self.engine = engine
        self.proxy = proxy
        """Between the operator and the engine."""
        self.client: APIClient = connect_to(engine.url)(_CALL_SECONDS)
        # So that a call which hangs is given up within the time of a storm.
        self.settings: Json = {
            "backends": ["docker"],
            "defaultBackend": "docker",
            "docker": {"timeoutSeconds": 3, "sweepSeconds": 10},
        }
        self.policy: Json = {"container": {"image": image}}
        self._namespace = namespace
        self._image = image
        self._strangers: dict[str, str] = {}

    async def runtimes(self) -> Sequence[SeenRuntime]:
        """Return every container that is marked as ours."""
        return tuple(found for one in await self._inspected() if (found := runtime_of(one)) is not None)

    async def make_bystanders(self) -> Mapping[str, str]:
        """Make a container without a mark, and one that is marked as another installation's."""
        forged = {
            Label.MANAGED_BY.value: MANAGED_BY,
            Label.INSTALLATION.value: _STRANGER,
            Label.NAMESPACE.value: self._namespace,
            Label.KEY.value: "agent:s0",
        }
        for name, labels in (("plain", {}), ("foreign", forged)):
            made = await asyncio.to_thread(
                self.client.create_container,
                self._image,
                ["sleep", "infinity"],
                name=name,
                labels=labels,
                network_disabled=True,
            )
            await asyncio.to_thread(self.client.start, made["Id"])
            self._strangers[f"the container {name}"] = made["Id"]
        return await self.bystanders()

    async def bystanders(self) -> Mapping[str, str]:
        """Return what they are like: whoever starts one again, renames it or makes it anew changes that."""
        found = {name: await self._insist(inspected, wanted) for name, wanted in self._strangers.items()}
        return {
            name: f"{one['Name']} {one['Id']}, started {one['State']['StartedAt']}"
            for name, one in found.items()
            if one is not None
        }

    async def witness(self, history: History) -> None:
        """Tell the history everything that the engine tells, until cancelled."""
        filters = {"type": "container", "label": f"{Label.NAMESPACE}={self._namespace}"}
        while True:
            with suppress(*LOST):
                # First the events, then what is there: so nothing happens in between.
                events = await asyncio.to_thread(self.client.events, decode=True, filters=filters)
                listed_at = time.time()
                there = [each for each in await self.runtimes() if each.running]
                history.see_all((each.key, each.id) for each in there)
                await asyncio.to_thread(_follow, events, history, since=listed_at)
            await asyncio.sleep(_PAUSE)

    async def _inspected(self) -> list[Json]:
        filters = {"label": f"{Label.NAMESPACE}={self._namespace}"}
        listed = await self._insist(APIClient.containers, all=True, filters=filters)
        found = [await self._insist(inspected, one["Id"]) for one in listed]
        return [one for one in found if one is not None]

    async def _insist(
        self, call: Callable[Concatenate[APIClient, P], T], *values: P.args, **named: P.kwargs
    ) -> T:
        """Ask until the engine answers: it may be down."""
        deadline = time.monotonic() + _TRIES_SECONDS
        while True:
            try:
                return await asyncio.to_thread(call, self.client, *values, **named)
            except LOST:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_PAUSE)


def runtime_of(container: Json) -> SeenRuntime | None:
    """Read a container that is marked as a runtime; None: it is nobody's runtime."""
    labels, state = container["Config"].get("Labels") or {}, container["State"]
    key = _key(labels)
    if key is None:
        return None
    environment = dict(entry.split("=", 1) for entry in container["Config"]["Env"] or ())
    return SeenRuntime(
        id=container["Id"],
        name=container["Name"].removeprefix("/"),
        key=key,
        running=state["Running"] and not state["Paused"],
        ending=state["Status"] == "removing",
        mark=environment.get(MARK),
    )


def _key(labels: Mapping[str, str]) -> tuple[str, str] | None:
    if Label.KEY not in labels or labels.get(Label.INSTALLATION) in {None, _STRANGER}:
        return None
    return labels[Label.POLICY], labels[Label.KEY]


def inspected(client: APIClient, container: str) -> Json | None:
    """Inspect a container; None: there is none."""
    try:
        found: Json = client.inspect_container(container)
    except APIError as error:
        if error.status_code == 404:
            return None
        raise
    return found


def _follow(events: Iterable[Mapping[str, Any]], history: History, *, since: float) -> None:
    for event in events:
        _tell(event, history, since=since)


def _tell(event: Mapping[str, Any], history: History, *, since: float) -> None:
    """Tell the history of one event of the engine. What lived before ``since`` it knows already."""
    runtime, action, at = event["Actor"]["ID"], event["Action"], event["timeNano"] / 1e9
    key = _key(event["Actor"]["Attributes"])
    if key is None:
        return
    if action in _ASKED_TO_END:
        history.see_removal(runtime, datetime.fromtimestamp(at, UTC))
    if action == "start":
        history.see_start(runtime, datetime.fromtimestamp(at, UTC))
    if at >= since and (action == "start" or action in _ENDS):
        history.see_runtime(key, runtime, lives=action == "start")


@contextmanager
def _own_engine() -> Iterator[Engine]:
    # Not the storm's own folder: its name may be too long for the sockets below.
    with tempfile.TemporaryDirectory(prefix="sk-", ignore_cleanup_errors=True) as folder:
        engine = Engine(Path(folder) / "e")
        try:
            engine.start()
            engine.wait_ready()
            yield engine
        finally:
            engine.destroy()


def _import(engine: Engine) -> str:
    client: DockerClient = engine.client()
    try:
        return import_tiny(client)
    finally:
        client.close()


@asynccontextmanager
async def on_own_engine() -> AsyncIterator[Scene]:
    """Set the scene with an engine of its own, and the API server that everybody shares."""
    async with AsyncExitStack() as stack:
        cluster = stack.enter_context(shared_cluster())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandkeeper-chaos-")))
        await asyncio.to_thread(install_crds, cluster)
        namespace = stack.enter_context(new_namespace(cluster))
        client = await stack.enter_async_context(Client(cluster.kubeconfig))
        made = _own_engine()
        engine = await asyncio.to_thread(made.__enter__)
        stack.push_async_callback(asyncio.to_thread, made.__exit__, None, None, None)
        image = await asyncio.to_thread(_import, engine)
        engine_proxy = await stack.enter_async_context(
            EngineProxy(Path(engine.url.removeprefix("unix://")), engine.root / "proxy.sock")
        )
        api_proxy = stack.enter_context(ApiProxy(cluster.kubeconfig, folder, token=True))
        side = DockerSide(engine, engine_proxy, namespace=namespace, image=image)
        stack.callback(side.client.close)
        config = configuration(namespace, side.settings)
        environment = operator_environment(cluster, api_proxy, DOCKER_HOST=engine_proxy.url)
        operator = Operated(config=config, folder=folder, env=environment)
        stack.push_async_callback(operator.kill)
        yield Scene(
            cluster=cluster,
            client=client,
            namespace=namespace,
            folder=folder,
            side=side,
            operator=operator,
            api=api_proxy,
        )
