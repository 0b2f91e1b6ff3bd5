"""The Pod backend in a storm: Pods on fake nodes, and others' objects beside them."""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from bench.kube import pods
from chaos.client import Client, Json
from chaos.following import follow
from chaos.history import History
from chaos.model import SeenRuntime
from chaos.scene import Operated, Scene, configuration, operator_environment
from sandkeeper.api.names import MANAGED_BY, Label
from support.cluster import Cluster, new_namespace, own_control_plane, shared_cluster
from support.crds import install_crds
from support.pods import POD_IMAGE
from support.proxy import ApiProxy
from testbed.fake_nodes import FakeNodes

__all__ = ["MARK", "PodSide", "on_own_control_plane", "on_shared_cluster", "runtime_of"]

MARK: Final = "CHAOS_MARK"
"""The environment variable that has the mark of the policy."""

_NODES: Final = 4
_SETTLED_SECONDS: Final = 30

_WITH_STATUS: Final = frozenset({"resourceVersion", "managedFields"})
_FORGED: Final = {Label.MANAGED_BY.value: MANAGED_BY, Label.INSTALLATION.value: "somebody-else"}


def runtime_of(pod: Json) -> SeenRuntime | None:
    """Read a Pod that is marked as a runtime; None: it is nobody's runtime."""
    metadata, status = pod["metadata"], pod.get("status", {})
    notes, labels = metadata.get("annotations", {}), metadata.get("labels", {})
    if Label.KEY not in notes or labels.get(Label.INSTALLATION) == _FORGED[Label.INSTALLATION]:
        return None
    (container, *_) = pod["spec"]["containers"]
    environment = {one["name"]: one.get("value") for one in container.get("env", [])}
    return SeenRuntime(
        id=metadata["uid"],
        name=metadata["name"],
        key=(notes[Label.POLICY], notes[Label.KEY]),
        running=status.get("phase") == "Running",
        ending="deletionTimestamp" in metadata,
        mark=environment.get(MARK),
    )


class PodSide:
    """Pods of one namespace."""

    def __init__(self, client: Client, namespace: str, nodes: FakeNodes) -> None:
        self.settings: Json = {"backends": ["pod"], "defaultBackend": "pod"}
        self.policy: Json = {"pod": nodes.placement, "container": {"image": POD_IMAGE}}
        self._client = client
        self._namespace = namespace
        self._nodes = nodes
        self._networks = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"

    async def runtimes(self) -> Sequence[SeenRuntime]:
        """Return every Pod that is marked as ours."""
        listed = await self._client.insist("GET", pods(self._namespace)) or {"items": []}
        return tuple(found for pod in listed["items"] if (found := runtime_of(pod)) is not None)

    async def make_bystanders(self) -> Mapping[str, str]:
        """Make a Pod without a mark, one that is marked as another installation's, and a network policy."""
        marks: list[tuple[str, Json]] = [
            ("plain", {}),
            ("foreign", {"labels": _FORGED, "annotations": {Label.KEY.value: "agent:s0"}}),
        ]
        for name, metadata in marks:
            container = {"name": "main", "image": POD_IMAGE}
            spec = {"containers": [container], **self._nodes.placement, "terminationGracePeriodSeconds": 0}
            body = {"metadata": {"name": name, **metadata}, "spec": spec}
            await self._client.request("POST", pods(self._namespace), body=body)
        await self._client.request(
            "POST",
            self._networks,
            body={
                "metadata": {"name": "foreign", "labels": _FORGED},
                "spec": {"podSelector": {}, "policyTypes": []},
            },
        )
        async with asyncio.timeout(_SETTLED_SECONDS):
            while True:
                found = [await self._client.request("GET", pods(self._namespace, name)) for name, _ in marks]
                if all(pod["status"].get("phase") == "Running" for pod in found):
                    break
                await asyncio.sleep(0.2)
        return await self.bystanders()

    async def bystanders(self) -> Mapping[str, str]:
        """Return what they are like now, but for what their kubelet and other controllers say of them."""
        paths = {
            "the Pod plain": pods(self._namespace, "plain"),
            "the Pod foreign": pods(self._namespace, "foreign"),
            "the NetworkPolicy foreign": f"{self._networks}/foreign",
        }
        found = {name: await self._client.insist("GET", path) for name, path in paths.items()}
        return {name: _fingerprint(one) for name, one in found.items() if one is not None}

    async def witness(self, history: History) -> None:
        """Tell the history what becomes of every Pod, until cancelled."""
        await follow(self._client, pods(self._namespace), partial(_tell, history))


def _tell(history: History, kind: str, raw: Json) -> None:
    runtime = runtime_of(raw)
    if runtime is None:
        return
    ended = raw.get("status", {}).get("phase") in {"Failed", "Succeeded"}
    lives = kind != "DELETED" and not runtime.ending and not ended
    history.see_runtime(runtime.key, runtime.id, lives=lives)
    if runtime.ending:
        metadata = raw["metadata"]
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        history.see_removal(runtime.id, datetime.fromisoformat(metadata["deletionTimestamp"]) - grace)


def _fingerprint(found: Json) -> str:
    """Tell everything of an object that somebody asked for: all but its status, and who wrote that and when."""
    metadata = {name: value for name, value in found["metadata"].items() if name not in _WITH_STATUS}
    asked = json.dumps([metadata, found.get("spec")], sort_keys=True)
    return f"{metadata['uid']} {hashlib.sha256(asked.encode()).hexdigest()[:16]}"


@asynccontextmanager
async def on_shared_cluster() -> AsyncIterator[Scene]:
    """Set the scene on the test bed that everybody shares: its API server is not to be broken."""
    async with AsyncExitStack() as stack:
        cluster = stack.enter_context(shared_cluster())
        yield await _set(stack, cluster)


@asynccontextmanager
async def on_own_control_plane() -> AsyncIterator[Scene]:
    """Set the scene on a control plane of its own, of which everything may be broken."""
    async with AsyncExitStack() as stack:
        made = own_control_plane()
        cluster = await asyncio.to_thread(made.__enter__)
        stack.push_async_callback(asyncio.to_thread, made.__exit__, None, None, None)
        yield await _set(stack, cluster)


async def _set(stack: AsyncExitStack, cluster: Cluster) -> Scene:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandkeeper-chaos-")))
    await asyncio.to_thread(install_crds, cluster)
    nodes = stack.enter_context(cluster.fake_nodes(_NODES, prefix="chaos"))
    namespace = stack.enter_context(new_namespace(cluster))
    client = await stack.enter_async_context(Client(cluster.kubeconfig))
    proxy = stack.enter_context(ApiProxy(cluster.kubeconfig, folder, token=True))
    side = PodSide(client, namespace, nodes)
    config = configuration(namespace, side.settings)
    operator = Operated(config=config, folder=folder, env=operator_environment(cluster, proxy))
    stack.push_async_callback(operator.kill)
    return Scene(
        cluster=cluster,
        client=client,
        namespace=namespace,
        folder=folder,
        side=side,
        operator=operator,
        api=proxy,
    )
