"""What a storm has: a cluster, an operator, what stands in between, and the Sandboxes of a namespace."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import yaml

from bench.kube import sandboxes
from chaos.client import Client, Json
from chaos.history import History, ready_of
from chaos.model import Model, SeenRuntime, SeenSandbox, World
from support.cluster import Cluster
from support.operator import OperatorProcess
from support.proxy import ApiProxy

__all__ = [
    "Operated",
    "Place",
    "Scene",
    "Side",
    "configuration",
    "now",
    "operator_environment",
]


_KEPT: Final = Path(__file__).resolve().parents[2] / "build"


def now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


def configuration(namespace: str, settings: Json) -> Json:
    """Return the operator's configuration in a storm: its own namespace alone, and removals within a storm's time."""
    quick = {"perMinute": 6000, "burst": 500}
    own = {"namespace": namespace, "release": "chaos", "watchNamespaces": [namespace]}
    return {**own, "replacements": quick, "prunes": quick, **settings}


class Operated:
    """The operator under test: one process at a time, started and killed as often as one likes."""

    def __init__(self, *, config: Json, folder: Path, env: Mapping[str, str]) -> None:
        self.log = folder / "operator.log"
        self.env = dict(env)
        """Of the next process; a fault may add to it."""
        self.ends: list[str] = []
        """How often it ended though nobody had killed it, and with what."""
        self._config = folder / "operator.yaml"
        self._config.write_text(yaml.safe_dump(config), encoding="utf-8")
        self._process: OperatorProcess | None = None
        self._killing = False

    @property
    def process(self) -> OperatorProcess:
        """The process of the moment, or the last one."""
        if self._process is None:
            raise RuntimeError("the operator was not started yet")
        return self._process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs; who finds that it has ended by itself notes that."""
        if self._process is None:
            return False
        code = self.process.process.poll()
        if code is None:
            return True
        if not self._killing:
            self._killing = True
            self.ends.append(f"the operator ended by itself, with code {code}")
        return False

    async def start(self) -> None:
        """Start it, unless it runs; ready is another question."""
        if not self.alive:
            self._killing = False
            self._process = OperatorProcess(
                config=self._config, log=self.log, env=self.env, crash=None, verbose=True
            )

    async def kill(self) -> int:
        """Kill it by SIGKILL; return the exit code, which is that signal's unless it had ended before."""
        if self._process is None:
            return 0
        running = self.alive
        self._killing = True
        await asyncio.to_thread(self.process.kill)
        code = self.process.process.returncode
        return int(code) if running else 0

    async def stop(self) -> int:
        """End it in order, by SIGTERM; return the exit code."""
        self._killing = True
        return await asyncio.to_thread(self.process.stop)

    async def ready(self) -> bool:
        """Whether it says that it is ready."""
        return self.alive and await asyncio.to_thread(self.process.ready)

    @property
    def memory(self) -> float:
        """Its resident memory, in MiB."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise LookupError("no VmRSS")

    @property
    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @property
    def errors(self) -> int:
        """How many passes of it ended in an error that nobody had thought of."""
        log = self.log.read_text(encoding="utf-8", errors="replace")
        return log.count("Traceback (most recent call last)")


class Side(Protocol):
    """A backend, as far as it differs for a storm."""

    settings: Json
    """Of the operator."""
    policy: Json
    """What every policy has besides."""

    async def runtimes(self) -> Sequence[SeenRuntime]:
        """Return every runtime that is marked as ours."""

    async def make_bystanders(self) -> Mapping[str, str]:
        """Make what belongs to others, and return what it is like."""

    async def bystanders(self) -> Mapping[str, str]:
        """Return what it is like now."""

    async def witness(self, history: History) -> None:
        """Tell the history what becomes of every runtime, until cancelled."""


@dataclass(kw_only=True)
class Place:
    """A namespace whose users make Sandboxes, whoever operates it."""

    cluster: Cluster
    client: Client
    """Straight to the API server, past all faults but its own."""
    namespace: str
    side: Side
    model: Model = field(default_factory=Model)
    history: History = field(default_factory=History)

    async def snapshot(self) -> World:
        """Read everything."""
        listed = await self.client.insist("GET", sandboxes(self.namespace)) or {"items": []}
        runtimes = await self.side.runtimes()
        bystanders = await self.side.bystanders()
        seen = tuple(_seen(one) for one in listed["items"])
        return World(now=now(), sandboxes=seen, runtimes=runtimes, bystanders=bystanders)


@dataclass(kw_only=True)
class Scene(Place):
    """Where a storm happens: one namespace, and one operator."""

    folder: Path
    operator: Operated
    api: ApiProxy
    """Between the operator and the API server."""

    def keep_log(self, storm: str, seed: int) -> str:
        """Keep what the API server has at the end, and the operator's log after it; name the file."""
        kept = _KEPT / f"chaos-{storm}-{seed}.log"
        kept.parent.mkdir(exist_ok=True)
        everything = ""
        with suppress(subprocess.SubprocessError):
            everything = self.cluster.kubectl(
                "-n", self.namespace, "get", "sandboxes,agentsandboxpolicies,pods", "-o", "yaml"
            )
        log = self.operator.log.read_text(encoding="utf-8", errors="replace")
        kept.write_text(f"{everything}--- at {now():%H:%M:%S}; the operator's log:\n{log}", encoding="utf-8")
        return str(kept)


def _seen(sandbox: Json) -> SeenSandbox:
    metadata, status = sandbox["metadata"], sandbox.get("status", {})
    ready = ready_of(status)
    return SeenSandbox(
        name=metadata["name"],
        uid=metadata["uid"],
        deleting="deletionTimestamp" in metadata,
        ready=ready.get("status", ""),
        reason=ready.get("reason", ""),
        is_current=ready.get("observedGeneration") == metadata["generation"],
        runtime_id=(status.get("runtime") or {}).get("id"),
        config_hash=status.get("configHash"),
        desired_config_hash=status.get("desiredConfigHash"),
        recreate=status.get("recreate"),
    )


def operator_environment(cluster: Cluster, proxy: ApiProxy, **more: str) -> dict[str, str]:
    """Return the environment of an operator that speaks to the API server through the proxy."""
    return os.environ | {
        "KUBECONFIG": str(proxy.kubeconfig),
        "DOCKER_HOST": cluster.docker_host,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        **more,
    }
