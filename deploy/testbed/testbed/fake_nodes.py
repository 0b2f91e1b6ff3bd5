"""Nodes that nothing runs on: Pods there become Ready at once and cost next to nothing.

For load, and for faults of nodes. What is seen of them is real, because everybody but the kubelet is: the
scheduler places the Pods, and a node that is not heard of any more is found unreachable by the node
lifecycle controller.
"""

from __future__ import annotations

import json
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException
from kubernetes.config import load_kube_config

from testbed import kwok, probes, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from testbed.bed import Bed
    from testbed.paths import Layout

GROUP_LABEL = "testbed.sandkeeper.dev/fake-nodes"
"""On all nodes of one group, as long as they exist."""

NODE_SELECTOR = {"type": "kwok"}
"""Leads a Pod to fake nodes, whoever made them."""

TOLERATION = {"key": "kwok.x-k8s.io/node", "operator": "Equal", "value": "fake", "effect": "NoSchedule"}
"""What a Pod needs besides: the taint keeps everybody else's Pods away."""

OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "value": "nodeshutdown",
    "effect": "NoExecute",
}

_READY_SECONDS = 60.0

_UNREACHABLE_SECONDS = 90.0
"""More than the default grace period of 50 s: not every cluster has the test bed's shorter one."""


class _Answer(Protocol):
    """An answer of the API server that nobody has read yet."""

    data: bytes


@dataclass(frozen=True)
class FakeNodes:
    """One group of fake nodes, all of them Ready to begin with."""

    group: str
    names: tuple[str, ...]
    _core: kubernetes.CoreV1Api

    @property
    def placement(self) -> dict[str, Any]:
        """Give the part of a Pod's spec that leads it to this very group."""
        return {"nodeSelector": {**NODE_SELECTOR, GROUP_LABEL: self.group}, "tolerations": [dict(TOLERATION)]}

    def silence(self, name: str) -> None:
        """Let a node's kubelet do nothing any more: no heartbeats, and nobody ends or starts its Pods."""
        self._core.patch_node(name, {"metadata": {"labels": {kwok.PLAYED_LABEL: None}}})

    def revive(self, name: str) -> None:
        """Let a silent node's kubelet go on."""
        self._core.patch_node(name, {"metadata": {"labels": {kwok.PLAYED_LABEL: self.group}}})

    def delete(self, name: str) -> None:
        """Delete a node, as an autoscaler would; its Pods are left to the garbage collector of Pods."""
        self._core.delete_node(name)

    def put_out_of_service(self, name: str) -> None:
        """Declare by its taint that a node is down for good; Pods of an unreachable one are then let go."""
        self._change_taints(name, lambda taints: [*taints, dict(OUT_OF_SERVICE)])

    def put_into_service(self, name: str) -> None:
        """Take that taint away."""
        key = OUT_OF_SERVICE["key"]
        self._change_taints(name, lambda taints: [taint for taint in taints if taint["key"] != key])

    def wait_ready(self, *names: str, seconds: float = _READY_SECONDS) -> None:
        """Wait until some nodes, or all of them, are Ready and take Pods."""
        self._wait("Ready", names or self.names, _why_not_ready, seconds)

    def wait_unreachable(self, *names: str, seconds: float = _UNREACHABLE_SECONDS) -> None:
        """Wait until silent nodes have been found out and their Pods are to leave."""
        self._wait("unreachable", names or self.names, _why_not_unreachable, seconds)

    def _wait(
        self,
        what: str,
        names: Sequence[str],
        trouble: Callable[[dict[str, Any]], str | None],
        seconds: float,
    ) -> None:
        def check() -> str | None:
            found = {node["metadata"]["name"]: node for node in _list_nodes(self._core, self.group)}
            for name in names:
                why = trouble(found[name]) if name in found else "is not there"
                if why is not None:
                    return f"{name}: {why}"
            return None

        probes.wait(f"{len(names)} fake nodes: {what}, which", check, seconds=seconds)

    def _change_taints(
        self, name: str, change: Callable[[list[dict[str, str]]], list[dict[str, str]]]
    ) -> None:
        while True:
            node = _read(self._core.read_node(name, _preload_content=False))
            patch = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": change(node["spec"].get("taints", []))},
            }
            try:
                self._core.patch_node(name, patch)
            except ApiException as error:
                # The list is written whole, and others write it too.
                if error.status != HTTPStatus.CONFLICT:
                    raise
            else:
                return


@contextmanager
def fake_nodes(layout: Layout, bed: Bed, *, count: int = 1, prefix: str = "fake") -> Iterator[FakeNodes]:
    """Give some fake nodes in the bed's cluster; they, their Pods and their kwok go at the end.

    Any number of groups live side by side, of this process and of others.
    """
    kwok.ensure(layout)
    group = f"{prefix}-{secrets.token_hex(3)}"
    with _connect(layout, bed) as connection:
        core = kubernetes.CoreV1Api(connection)
        _remove_stale(layout, core)
        run = kwok.start(layout, group=group, kubeconfig=Path(bed.kubeconfig))
        made = FakeNodes(group, tuple(f"{group}-{number}" for number in range(count)), core)
        try:
            for name in made.names:
                # Plain objects do too.
                core.create_node(_manifest(name, group))  # type: ignore[arg-type]
            made.wait_ready(seconds=_READY_SECONDS)
            yield made
        except probes.NotReadyError as error:
            with suppress(FileNotFoundError):
                error.add_note(run.log.read_text(encoding="utf-8", errors="replace")[-2000:])
            raise
        finally:
            try:
                _clear(core, group, made.names)
            finally:
                kwok.stop(layout, run)


def _connect(layout: Layout, bed: Bed) -> kubernetes.ApiClient:
    configuration = kubernetes.Configuration()
    load_kube_config(  # type: ignore[no-untyped-call]
        config_file=bed.kubeconfig,
        client_configuration=configuration,
        # The library writes the keys to files, which a killed process leaves behind: let them be in the bed.
        temp_file_path=str(layout.pki / "clients"),
    )
    return kubernetes.ApiClient(configuration)


def _remove_stale(layout: Layout, core: kubernetes.CoreV1Api) -> None:
    """Take away what those left who were killed."""
    for run in kwok.runs(layout):
        if not run.owner.alive:
            progress.say(f"Removing the fake nodes {run.group}, which somebody left")
            names = [node["metadata"]["name"] for node in _list_nodes(core, run.group)]
            _clear(core, run.group, names)
            kwok.stop(layout, run)


def _clear(core: kubernetes.CoreV1Api, group: str, names: Sequence[str]) -> None:
    # The nodes first: nobody is to come while the Pods go.
    core.delete_collection_node(label_selector=f"{GROUP_LABEL}={group}")
    for name in names:
        on_node = f"spec.nodeName={name}"
        pods = _read(core.list_pod_for_all_namespaces(field_selector=on_node, _preload_content=False))
        for namespace in {pod["metadata"]["namespace"] for pod in pods["items"]}:
            # Nobody is there who would end them in an orderly way, and one call does it for all of them.
            core.delete_collection_namespaced_pod(
                namespace, field_selector=on_node, grace_period_seconds=0, _preload_content=False
            )


def _list_nodes(core: kubernetes.CoreV1Api, group: str) -> list[dict[str, Any]]:
    selector = f"{GROUP_LABEL}={group}"
    found: list[dict[str, Any]] = _read(core.list_node(label_selector=selector, _preload_content=False))[
        "items"
    ]
    return found


def _read(answer: object) -> dict[str, Any]:
    # The client's own objects are slow to make, and here are thousands. Asked not to make them, it hands
    # over the bare answer, of which its types know nothing.
    read: dict[str, Any] = json.loads(cast("_Answer", answer).data)
    return read


def _manifest(name: str, group: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {
                **NODE_SELECTOR,
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                GROUP_LABEL: group,
                kwok.PLAYED_LABEL: group,
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [{name: TOLERATION[name] for name in ("key", "value", "effect")}]},
    }


def _ready(node: dict[str, Any]) -> str | None:
    """Read the status of the condition Ready."""
    for condition in node["status"].get("conditions", []):
        if condition["type"] == "Ready":
            return str(condition["status"])
    return None


def _taints(node: dict[str, Any]) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", [])}


def _why_not_ready(node: dict[str, Any]) -> str | None:
    if _ready(node) != "True":
        return f"Ready is {_ready(node)}"
    # The controller-manager lets Pods in a little later.
    standing = {key for key, _ in _taints(node) if key.startswith("node.kubernetes.io/")}
    return f"tainted: {', '.join(sorted(standing))}" if standing else None


def _why_not_unreachable(node: dict[str, Any]) -> str | None:
    if _ready(node) != "Unknown":
        return f"Ready is {_ready(node)}"
    found = ("node.kubernetes.io/unreachable", "NoExecute") in _taints(node)
    return None if found else "its Pods may stay"
