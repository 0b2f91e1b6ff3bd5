"""Counters of writes: the API server's own, and the operator's."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bench.kube import Kube
from sandkeeper.api.names import GROUP
from support.operator import OperatorProcess

__all__ = ["Reading", "passes", "read"]

_VERBS = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_SAMPLE = re.compile(r"^(?P<name>[a-z_]+)\{(?P<labels>[^}]*)\} (?P<value>\S+)$")
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
_OWN = ("sandboxes", "sandboxes/status")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the counters say."""

    server: float
    """Writes to Sandboxes that the API server had, whoever made them."""
    own: float
    """Writes to Sandboxes that the operator says it made."""
    refused: float
    """Writes to Sandboxes that the operator says were refused: somebody was quicker."""
    events: float
    """Events that the operator says it posted."""

    def since(self, before: "Reading") -> "Reading":
        """Return what was added."""
        return Reading(
            server=self.server - before.server,
            own=self.own - before.own,
            refused=self.refused - before.refused,
            events=self.events - before.events,
        )


async def read(kube: Kube, operator: OperatorProcess) -> Reading:
    """Read all counters."""
    server = 0.0
    for name, labels, value in _samples(await kube.text("/metrics"), "apiserver_request_total{"):
        ours = labels.get("group") == GROUP and labels.get("resource") == "sandboxes"
        # What was refused, or only tried, has written nothing.
        done = labels.get("code", "").startswith("2") and not labels.get("dry_run")
        if name == "apiserver_request_total" and ours and done and labels["verb"] in _VERBS:
            server += value
    own = refused = events = 0.0
    for name, labels, value in _samples(operator.read("/metrics"), "sandkeeper_"):
        if name == "sandkeeper_api_requests_total" and labels["verb"] in _VERBS:
            if labels["resource"] == "events":
                events += value
            elif labels["resource"] in _OWN and labels["code"].startswith("2"):
                own += value
            elif labels["resource"] in _OWN:
                refused += value
    return Reading(server=server, own=own, refused=refused, events=events)


def passes(operator: OperatorProcess) -> float:
    """Return how many passes the operator has made."""
    samples = _samples(operator.read("/metrics"), "sandkeeper_passes_total")
    return sum(value for _, _, value in samples)


def _samples(page: str, prefix: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in page.splitlines():
        if line.startswith(prefix) and (match := _SAMPLE.match(line)):
            yield match["name"], dict(_LABEL.findall(match["labels"])), float(match["value"])
