"""Where it all happens: a namespace, an image and an operator of its own on the cluster that is up."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from docker import APIClient

from bench.bare import Bare
from bench.figures import Json
from bench.kube import Kube, Watch, sandboxes
from bench.tracing import TracedOperator
from sandkeeper.api.names import API_VERSION, GROUP, VERSION, Label
from sandkeeper.config.operator import DockerSettings
from support.operator import OperatorProcess
from testbed import progress
from testbed.fake_nodes import FakeNodes

__all__ = ["PODS", "POD_POLICY", "WORKERS", "Stage"]

WORKERS: Final = DockerSettings().workers
"""Calls that the operator makes to the engine at once; the baseline makes as many."""

PODS: Final[Json] = {"backends": ["pod"], "defaultBackend": "pod"}
"""Settings of an operator whose sandboxes are Pods."""

POD_POLICY: Final = "pods"
"""The policy of Sandboxes that are Pods on a real node."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a measurement works with."""

    kube: Kube
    watch: Watch
    """Of the stage's namespace."""
    engine: APIClient
    bare: Bare
    namespace: str
    image: str
    provider: str
    """Where the cluster comes from: local, kind, or the caller's own."""
    folder: Path
    """For configuration and logs of operators."""
    environ: dict[str, str]
    make_nodes: Callable[[int], AbstractContextManager[FakeNodes]]

    async def create(self, name: str, **spec: Any) -> Json:
        """Create a Sandbox, as a client does: one POST. The agent is called like the Sandbox unless said otherwise."""
        return await self.kube.request(
            "POST",
            sandboxes(self.namespace),
            body={
                "apiVersion": API_VERSION,
                "kind": "Sandbox",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"agentId": name, **spec},
            },
        )

    async def patch(self, name: str, body: Json) -> Json:
        """Change a Sandbox, by a merge patch."""
        return await self.kube.request("PATCH", sandboxes(self.namespace, name), body=body)

    async def annotate(self, name: str, **annotations: str) -> Json:
        """Set annotations of ours; ``last_used="..."`` is sandkeeper.dev/last-used."""
        ours = {f"sandkeeper.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        return await self.patch(name, {"metadata": {"annotations": ours}})

    async def delete(self, name: str, *, limit: float = 60) -> None:
        """Delete a Sandbox, and wait until it is gone."""
        await self.kube.request("DELETE", sandboxes(self.namespace, name))
        await self.watch.until(name, lambda seen: seen.kind == "DELETED", limit=limit)

    async def policy(self, name: str, *, namespace: str | None = None, **spec: Any) -> None:
        """Make a policy, in the stage's namespace or another; the image is the stage's unless said otherwise."""
        await self.kube.request(
            "POST",
            f"/apis/{GROUP}/{VERSION}/namespaces/{namespace or self.namespace}/agentsandboxpolicies",
            body={
                "apiVersion": API_VERSION,
                "kind": "AgentSandboxPolicy",
                "metadata": {"name": name},
                "spec": {"container": {"image": self.image}, **spec},
            },
        )

    def containers(self) -> list[Json]:
        """Return what the engine has of the namespace, bare containers as well."""
        filters = {"label": f"{Label.NAMESPACE}={self.namespace}"}
        return list(self.engine.containers(all=True, filters=filters))

    @asynccontextmanager
    async def fake_nodes(self, count: int) -> AsyncIterator[FakeNodes]:
        """Have some nodes that nothing runs on; they go with their Pods."""
        nodes = self.make_nodes(count)
        made = await asyncio.to_thread(nodes.__enter__)
        try:
            yield made
        finally:
            await asyncio.to_thread(nodes.__exit__, None, None, None)

    @asynccontextmanager
    async def operator(self, *, trace: Path | None = None, **extra: Any) -> AsyncIterator[OperatorProcess]:
        """Run an operator for the namespace, with a lease, as it is installed."""
        number = secrets.token_hex(3)
        config = self.folder / f"operator-{number}.yaml"
        own = {"namespace": self.namespace, "release": "bench", "watchNamespaces": [self.namespace]}
        settings = {**own, **extra}
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        log = self.folder / f"operator-{number}.log"
        process = (
            OperatorProcess(config=config, log=log, env=self.environ, crash=None)
            if trace is None
            else TracedOperator(config=config, log=log, env=self.environ, trace=trace)
        )
        try:
            await asyncio.to_thread(process.wait_ready)
            yield process
        except Exception:
            progress.say(f"The operator's last words:\n{log.read_text(encoding='utf-8')[-3000:]}")
            raise
        finally:
            with suppress(Exception):
                await asyncio.to_thread(process.stop, timeout=25)
            process.kill()
