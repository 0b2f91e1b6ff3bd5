"""Several operators of one installation, each with a way to the API server of its own that can be cut."""

import asyncio
import random
import re
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from availability.reigns import UNLED, Reign, usurpations
from chaos.client import Client, Json
from chaos.following import follow
from chaos.model import violations
from chaos.pods import PodSide
from chaos.scene import Operated, Place, operator_environment
from chaos.users import Users
from chaos.witness import witnessed
from sandkeeper.cluster.resources import LEASES
from support.cluster import Cluster
from support.proxy import ApiProxy, Write
from testbed.fake_nodes import FakeNodes

__all__ = ["Crew", "Replica", "assemble"]

RELEASE: Final = "crew"
_KEPT: Final = Path(__file__).resolve().parents[2] / "build"
_PAUSE: Final = 0.05
_SETTLED_SECONDS: Final = 120.0
_PAUSES: Final = (0.1, 0.6)
"""Between two acts of the users of one namespace."""


@dataclass(eq=False)
class Replica:
    """One operator: its process, or one after the other, and its way to the API server."""

    name: str
    operated: Operated
    proxy: ApiProxy
    pids: set[int] = field(default_factory=set)

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        await self.operated.start()
        self.pids.add(self.operated.pid)
        await eventually(self.operated.ready, what=f"{self.name} is ready")

    @property
    def writes(self) -> list[Write]:
        """What it wrote, but for who leads and what only tells."""
        return [write for write in self.proxy.writes if write.resource not in UNLED]

    # What may happen to it.

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """SIGKILL; and another in its place in the end."""
        await self.operated.kill()
        try:
            yield
        finally:
            await self.start()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """SIGSTOP: it does nothing and knows nothing of it, and goes on in the end as if it were the same moment."""
        process = self.operated.process.process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    @asynccontextmanager
    async def cut_off(self) -> AsyncIterator[None]:
        """Nothing comes through to the API server, until it does again."""
        await asyncio.to_thread(self.proxy.cut)
        try:
            yield
        finally:
            await asyncio.to_thread(self.proxy.heal)


async def eventually(condition: Callable[[], object], *, what: str, seconds: float = 90) -> None:
    """Ask until the answer, which may have to be awaited, is true."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(_PAUSE)


class Crew:
    """The operators, their users, and a witness of every version of every Lease."""

    def __init__(
        self, *, cluster: Cluster, folder: Path, places: Sequence[Place], config: Json, kubeconfig: Path
    ) -> None:
        self.places = places
        self.replicas: list[Replica] = []
        self.leases: list[Json] = []
        """Every version of every Lease of the installation, as they came."""
        self._cluster = cluster
        self._folder = folder
        self._config = config
        self._kubeconfig = kubeconfig
        self._stack = AsyncExitStack()
        self._over = asyncio.Event()
        self._using: list[asyncio.Task[None]] = []

    async def add(self) -> Replica:
        """Start one more."""
        name = f"replica-{len(self.replicas)}"
        folder = self._folder / name
        folder.mkdir()
        proxy = self._stack.enter_context(ApiProxy(self._kubeconfig, folder, token=True))
        operated = Operated(
            config=self._config, folder=folder, env=operator_environment(self._cluster, proxy)
        )
        self._stack.push_async_callback(operated.kill)
        replica = Replica(name, operated, proxy)
        self.replicas.append(replica)
        await replica.start()
        return replica

    def replica_of(self, identity: str) -> Replica | None:
        """Return whose identity this is: host, process, and something random."""
        found = re.search(r"_(\d+)_[0-9a-f]+$", identity)
        return next((one for one in self.replicas if found and int(found[1]) in one.pids), None)

    # What users do.

    async def populate(self, *, seed: int, most: int) -> None:
        """Let users begin in every namespace, until all that they made is as it should be; then let them go on."""
        users = [
            Users(place, random.Random(f"{seed}/{number}"), most=most, pauses=_PAUSES)  # noqa: S311 - to be repeated
            for number, place in enumerate(self.places)
        ]
        await asyncio.gather(*(one.begin() for one in users))
        await self.settle()
        self._using = [asyncio.create_task(one.run(self._over)) for one in users]

    async def rest(self) -> None:
        """Let the users end, and whatever they wanted come true."""
        self._over.set()
        await asyncio.gather(*self._using)
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything is as the users left it."""
        found: list[str] = []

        async def is_settled() -> bool:
            nonlocal found
            found = [
                wrong for place in self.places for wrong in violations(place.model, await place.snapshot())
            ]
            await asyncio.sleep(0.5 if found else 0)
            return not found

        try:
            await eventually(is_settled, what="all is as it should be", seconds=_SETTLED_SECONDS)
        except AssertionError as error:
            error.add_note("\n".join(found))
            raise

    # What is seen.

    def complaints(self, reigns: Sequence[Reign]) -> list[str]:
        """Tell all that should never have been, at any moment."""
        seen = [wrong for place in self.places for wrong in place.history.violations()]
        ends = [end for replica in self.replicas for end in replica.operated.ends]
        writes = {replica.name: replica.proxy.writes for replica in self.replicas}
        return [*seen, *ends, *usurpations(writes, reigns)]

    def first_write(self, *, since: float, by: Callable[[Replica], bool]) -> float | None:
        """Return when one of these wrote first since a moment (time.monotonic)."""
        moments = [w.at for one in self.replicas if by(one) for w in one.writes if w.at > since]
        return min(moments, default=None)

    def keep_logs(self) -> None:
        """Keep the operators' logs, for whoever wants to know why."""
        for replica in self.replicas:
            kept = _KEPT / f"availability-{self.places[0].namespace}-{replica.name}.log"
            kept.parent.mkdir(exist_ok=True)
            kept.write_bytes(replica.operated.log.read_bytes())

    async def __aenter__(self) -> Self:
        path = LEASES.path(namespace=self._config["namespace"])
        task = asyncio.create_task(follow(self.places[0].client, path, self._take))
        self._stack.push_async_callback(_end, task)
        for place in self.places:
            await self._stack.enter_async_context(witnessed(place))
        return self

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.keep_logs()
        self._over.set()
        for task in self._using:
            await _end(task)
        await self._stack.aclose()

    def _take(self, kind: str, raw: Json) -> None:
        if raw["metadata"]["name"].startswith(f"{RELEASE}-"):
            self.leases.append({**raw, "kind": kind})


async def _end(task: "asyncio.Task[None]") -> None:
    if task.done():
        task.result()  # a witness that is gone has seen nothing, and nothing wrong
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def assemble(
    cluster: Cluster, nodes: FakeNodes, namespaces: Sequence[str], *, kubeconfig: Path, **settings: Any
) -> AsyncIterator[Crew]:
    """Give a crew without operators yet, that serves these namespaces; its Leases are in the first of them.

    The kubeconfig is the operators'.
    """
    quick = {"perMinute": 6000, "burst": 500}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandkeeper-crew-")))
        client = await stack.enter_async_context(Client(cluster.kubeconfig))
        places = [
            Place(cluster=cluster, client=client, namespace=name, side=PodSide(client, name, nodes))
            for name in namespaces
        ]
        config: Json = {
            "namespace": namespaces[0],
            "release": RELEASE,
            "replacements": quick,
            "prunes": quick,
            **places[0].side.settings,
            **settings,
        }
        crew = Crew(cluster=cluster, folder=folder, places=places, config=config, kubeconfig=kubeconfig)
        yield await stack.enter_async_context(crew)
