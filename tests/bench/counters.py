"""Counters of writes: the API server's own, and the operator's."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields

from bench.kube import Kube
from sandkeeper.api.names import GROUP
from support.operator import OperatorProcess

__all__ = ["Reading", "events", "passes", "planned", "read"]

_VERBS = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_SAMPLE = re.compile(r"^(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
_OWN = frozenset({"sandboxes", "sandboxes/status"})
_NETWORKS = "networkpolicies"
_TRIES = 10


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the counters say."""

    server: float
    """Writes to Sandboxes that the API server had, whoever made them."""
    server_pods: float
    """Writes to Pods that it had, but for deletions and for what kubelets and schedulers write (subresources)."""
    server_tried: float
    """Creations of Pods that it only tried (a dry run), which wrote nothing."""
    own: float
    """Writes to Sandboxes that the operator says it made."""
    own_pods: float
    """Writes to Pods that it says it made or tried, but for deletions."""
    own_deletions: float
    """Deletions of Pods that it says it asked for. The garbage collector and kubelets delete Pods too."""
    own_networks: float
    """Writes to NetworkPolicies that it says it made."""
    refused: float
    """Writes that the operator says were refused: somebody was quicker."""
    events: float
    """Events that the operator says it posted."""

    def since(self, before: "Reading") -> "Reading":
        """Return what was added."""
        added = {one.name: getattr(self, one.name) - getattr(before, one.name) for one in fields(self)}
        return Reading(**added)


async def read(kube: Kube, operator: OperatorProcess | None) -> Reading:
    """Read all counters; without an operator, the API server's alone."""
    found = {one.name: 0.0 for one in fields(Reading)}
    for name, labels, value in _samples(await kube.text("/metrics"), "apiserver_request_total{"):
        if name == "apiserver_request_total" and (counter := _of_server(labels)) is not None:
            found[counter] += value
    page = "" if operator is None else await asyncio.to_thread(_page, operator)
    for name, labels, value in _samples(page, "sandkeeper_"):
        if name == "sandkeeper_api_requests_total" and (counter := _of_operator(labels)) is not None:
            found[counter] += value
    return Reading(**found)


def _of_server(labels: dict[str, str]) -> str | None:
    """Say which of our counters a sample belongs to."""
    # What was refused has written nothing.
    if labels["verb"] not in _VERBS or not labels.get("code", "").startswith("2"):
        return None
    match labels.get("group"), labels.get("resource"), labels.get("subresource"):
        case (group, "sandboxes", _) if group == GROUP:
            return None if labels.get("dry_run") else "server"
        case ("", "pods", "") if not labels["verb"].startswith("DELETE"):
            return "server_tried" if labels.get("dry_run") else "server_pods"
    return None


def _of_operator(labels: dict[str, str]) -> str | None:
    resource, verb = labels["resource"], labels["verb"]
    if verb not in _VERBS:
        return None
    if resource == "events":
        return "events"
    if resource not in _OWN | {"pods", _NETWORKS}:
        return None
    if not labels["code"].startswith("2"):
        return "refused"
    if resource == "pods":
        return "own_deletions" if verb == "DELETE" else "own_pods"
    return "own_networks" if resource == _NETWORKS else "own"


def passes(operator: OperatorProcess) -> float:
    """Return how many passes the operator has made."""
    samples = _samples(_page(operator), "sandkeeper_reconcile_total")
    return sum(value for _, _, value in samples)


def events(operator: OperatorProcess) -> float:
    """Return how many Events the operator has posted."""
    samples = _samples(_page(operator), "sandkeeper_api_requests_total")
    return sum(value for _, labels, value in samples if _of_operator(labels) == "events")


def planned(operator: OperatorProcess) -> float:
    """Return how many passes the operator has made, and how many keys wait for one."""
    samples = _samples(_page(operator), ("sandkeeper_reconcile_total", "sandkeeper_workqueue_depth"))
    return sum(value for _, _, value in samples)


def _page(operator: OperatorProcess) -> str:
    """Read the operator's page; while it takes in thousands at once on a busy machine it may not answer at first."""
    for _ in range(_TRIES):
        with suppress(TimeoutError):
            return operator.read("/metrics")
    return operator.read("/metrics")


def _samples(page: str, prefix: str | tuple[str, ...]) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in page.splitlines():
        if line.startswith(prefix) and (match := _SAMPLE.match(line)):
            yield match["name"], dict(_LABEL.findall(match["labels"] or "")), float(match["value"])
