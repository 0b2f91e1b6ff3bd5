"""Sandboxes as Pods: an operator that serves that backend, and the Pods that it makes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.operator import OperatorFactory, OperatorProcess, Sandboxes

__all__ = ["POD_IMAGE", "Pods", "serving_pods"]

POD_IMAGE = "docker.io/library/debian:bookworm-slim"
"""What every node of the test bed has."""

Pods = Callable[[], list[dict[str, Any]]]


def serving_pods(**config: Any) -> dict[str, Any]:
    """Return an operator's settings under which sandboxes are Pods unless somebody says otherwise."""
    return {"backends": ["pod", "docker"], "defaultBackend": "pod", **config}


@pytest.fixture
def pod_operator(operator_factory: OperatorFactory) -> OperatorProcess:
    """One operator, ready, whose sandboxes are Pods."""
    return operator_factory(**serving_pods()).wait_ready()


@pytest.fixture
def pod_sandboxes(cluster: Any, crds: Any, namespace: str) -> Sandboxes:
    """The test's Sandboxes, with an image that is on the node."""
    return Sandboxes(cluster, namespace, POD_IMAGE)


@pytest.fixture
def pods(cluster: Any, namespace: str) -> Pods:
    """The Pods of the test's namespace as they are at the moment, those on their way out included."""

    def find() -> list[dict[str, Any]]:
        found = json.loads(cluster.kubectl("-n", namespace, "get", "pods", "-o", "json"))
        return list(found["items"])

    return find
