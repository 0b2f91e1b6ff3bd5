"""Who is compared: Pods that nobody looks after, a sketch of an operator, and Sandkeeper, each in its own namespace."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from bench import counters, machine
from bench.figures import Json
from bench.kube import Kube, Watch, pods, sandboxes
from bench.observer import POD_READY, SANDBOX_READY, Elsewhere, Observer
from bench.pod_bare import BarePods
from bench.stage import PODS, Stage
from sandkeeper.api.names import API_VERSION
from support.operator import OperatorProcess
from support.pods import POD_IMAGE
from testbed import progress

__all__ = ["BARE", "OURS", "POLICY", "SKETCH", "Contender", "Field", "field_of", "sandbox", "settled"]

BARE: Final = "bare Pods"
SKETCH: Final = "kopf sketch"
OURS: Final = "Sandkeeper"

POLICY: Final = "default"
"""The policy under which Sandkeeper works."""
_PAUSE: Final = 0.2
_QUIET: Final = 1.0
_LIMIT: Final = 600.0
_PAGE: Final = 100
"""Objects that one request removes: it has to end in time on a busy machine, too."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One of them, and how to have something of it."""

    name: str
    namespace: str
    path: str
    """Where a client POSTs."""
    body: Callable[[str], Json]
    observer: Observer
    pid: int | None = None
    """The process that does the work; None: there is none."""
    operator: OperatorProcess | None = None

    async def make(self, kube: Kube, name: str) -> None:
        """Create one; it is not waited for."""
        await kube.post(self.path, json.dumps(self.body(name)).encode())

    def processor_time(self) -> float:
        """Seconds of processor time that it used so far."""
        return 0.0 if self.pid is None else machine.processor_time(self.pid)

    def memory(self) -> float:
        """Resident memory, in MiB."""
        return 0.0 if self.pid is None else machine.memory(self.pid)


@dataclass(frozen=True, kw_only=True)
class Field:
    """All of them on the same nodes."""

    kube: Kube
    stage: Stage
    contenders: tuple[Contender, ...]
    elsewhere: Elsewhere
    policy: Json = field(default_factory=dict)
    """The policy under which Sandkeeper works, and after which the others' Pods are made."""

    def __getitem__(self, name: str) -> Contender:
        """Return the one of this name."""
        return next(each for each in self.contenders if each.name == name)

    @property
    def ours(self) -> Contender:
        """Sandkeeper."""
        return self[OURS]

    async def clear(self, contender: Contender) -> None:
        """Remove everything that it has, and wait until nobody is busy with that any more."""
        async with asyncio.timeout(_LIMIT):
            await _remove_all(self.kube, contender.namespace)
            if contender.operator is not None:
                await settled(contender.operator)
        contender.observer.forget()


async def settled(operator: OperatorProcess, *, quiet: float = _QUIET) -> None:
    """Wait until the operator has nothing left to do."""
    known, still = -1.0, 0.0
    while still < quiet:
        await asyncio.sleep(_PAUSE)
        now = await asyncio.to_thread(counters.passes, operator)
        still = still + _PAUSE if now == known else 0.0
        known = now


@asynccontextmanager
async def field_of(
    stage: Stage, *, nodes: int, names: tuple[str, ...], **settings: Any
) -> AsyncIterator[Field]:
    """Put up those of these names; ``settings`` are for Sandkeeper's configuration."""
    # A namespace takes its time to go, so those of one part are not those of the next.
    number = secrets.token_hex(2)
    spaces = {name: f"{stage.namespace}-{number}-{name.split()[-1].lower()}" for name in names}
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(stage.fake_nodes(nodes))
        for space in spaces.values():
            await stack.enter_async_context(_namespace(stage.kube, space))
        policy = {"backend": "pod", "container": {"image": POD_IMAGE}, "pod": fake.placement}
        bare = BarePods(
            stage.kube, Watch(stage.kube, stage.namespace), namespace=spaces[names[0]], policy=policy
        )
        elsewhere = await stack.enter_async_context(Elsewhere(stage.kube, list(spaces.values())))
        found: list[Contender] = []
        for name, space in spaces.items():
            path, ready = (pods, POD_READY) if name == BARE else (sandboxes, SANDBOX_READY)
            observer = await stack.enter_async_context(Observer(stage.kube, space, path, ready))
            pid, operator = None, None
            if name == SKETCH:
                pid = await stack.enter_async_context(_sketch(stage, space, bare.body("")))
            elif name == OURS:
                await stage.policy(POLICY, namespace=space, **policy)
                operator = await stack.enter_async_context(
                    stage.operator(watchNamespaces=[space], **PODS, **settings)
                )
                pid = operator.process.pid
            found.append(
                Contender(
                    name=name,
                    namespace=space,
                    path=path(space),
                    body=bare.body if name == BARE else sandbox,
                    observer=observer,
                    pid=pid,
                    operator=operator,
                )
            )
        yield Field(
            kube=stage.kube,
            stage=stage,
            contenders=tuple(found),
            elsewhere=elsewhere,
            policy=policy,
        )


def sandbox(name: str, **spec: Any) -> Json:
    """Return a Sandbox as a client creates it; the agent is called like it unless said otherwise."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Sandbox",
        "metadata": {"name": name},
        "spec": {"agentId": name, **spec},
    }


@asynccontextmanager
async def _namespace(kube: Kube, name: str) -> AsyncIterator[None]:
    await kube.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    try:
        yield
    finally:
        # What is in it goes with it, and nobody waits for that.
        try:
            await kube.request("DELETE", f"/api/v1/namespaces/{name}")
        except (aiohttp.ClientResponseError, TimeoutError) as error:
            progress.say(f"Cannot remove the namespace {name}: {error}")


async def _remove_all(kube: Kube, namespace: str) -> None:
    """Remove all Sandboxes, and Pods at once: what the garbage collector takes its time for is not measured."""
    for path in (sandboxes(namespace), pods(namespace)):
        while (await kube.request("GET", path, query="?limit=1"))["items"]:
            await kube.request("DELETE", path, query=f"?gracePeriodSeconds=0&limit={_PAGE}")


@asynccontextmanager
async def _sketch(stage: Stage, namespace: str, pod: Json) -> AsyncIterator[int]:
    body = stage.folder / "pod.json"
    body.write_text(json.dumps(pod), encoding="utf-8")
    log = stage.folder / "sketch.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(  # noqa: ASYNC220 - it takes no time, and goes on beside us
            [sys.executable, "-m", "bench.sketch", namespace, str(body)],
            stdout=sink,
            stderr=sink,
            env=stage.environ,
        )
    try:
        yield process.pid
    except Exception:
        progress.say(f"The sketch's last words:\n{log.read_text(encoding='utf-8')[-2000:]}")
        raise
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
