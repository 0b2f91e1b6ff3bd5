"""The baseline of Pods: the same Pod, created by hand, with nothing in between."""

from typing import Any

from bench.figures import Json
from bench.kube import Kube, Seen, Watch, pods
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.operator import Ceilings, OperatorConfig
from sandkeeper.config.resolve import resolve
from sandkeeper.runtimes.pod.desired import pod_body
from sandkeeper.runtimes.protocol import Order

__all__ = ["BarePods", "is_ready"]

_NOBODYS = "0" * 16
"""An installation that no operator has, so that none takes these Pods for its own."""


def is_ready(seen: Seen) -> bool:
    """Whether a Pod is Ready."""
    conditions = (seen.object.get("status") or {}).get("conditions", ())
    return seen.kind != "DELETED" and ("Ready", "True") in [(c["type"], c["status"]) for c in conditions]


def is_gone(seen: Seen) -> bool:
    """Whether a Pod is gone."""
    return seen.kind == "DELETED"


class BarePods:
    """Makes Pods as the operator would, but without owners: nobody but the kubelet looks after them."""

    def __init__(self, kube: Kube, watch: Watch, *, namespace: str, policy: dict[str, Any]) -> None:
        self._kube = kube
        self._watch = watch
        self._namespace = namespace
        resolution = resolve(
            namespace=namespace,
            namespace_uid="0",
            spec=SandboxSpec.model_validate({"agentId": "bare"}),
            policies={(namespace, "default"): AgentSandboxPolicySpec.model_validate(policy)},
            recorded_policy=None,
            operator=OperatorConfig.model_validate({"backends": ["pod"], "defaultBackend": "pod"}),
        )
        assert resolution.config is not None, resolution.problem
        assert resolution.config_hash is not None
        key = RuntimeKey(namespace, "0", "default", "agent:bare")
        order = Order(key=key, config=resolution.config, config_hash=resolution.config_hash)
        self._body = pod_body(order, installation=_NOBODYS, ceilings=Ceilings())

    async def make(self, name: str) -> None:
        """Create one; it is not waited for."""
        await self._kube.request("POST", pods(self._namespace), body=self.body(name))

    def body(self, name: str) -> Json:
        """Return what one is created from."""
        return {**self._body, "metadata": {**self._body["metadata"], "name": name}}

    async def ready(self, name: str, *, limit: float = 60) -> Seen:
        """Wait until it is Ready."""
        return await self._watch.until(name, is_ready, limit=limit)

    async def remove(self, name: str) -> None:
        """Delete one, and wait until it is gone."""
        await self._kube.request("DELETE", pods(self._namespace, name))
        await self._watch.until(name, is_gone)

    def is_like(self, one: Json, other: Json) -> bool:
        """Whether two Pods are made alike, but for names, owners, and the node that took them."""
        return _essence(one) == _essence(other)


def _essence(pod: Json) -> Json:
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    metadata = pod["metadata"]
    return {
        "spec": spec,
        "labels": sorted(metadata["labels"]),
        "annotations": sorted(metadata["annotations"]),
    }
