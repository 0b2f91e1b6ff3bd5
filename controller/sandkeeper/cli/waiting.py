"""Waiting for a Sandbox to be ready: by a watch, from the very state that was seen, so that nothing is missed."""

import time

from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import EXPIRED, Failure, plainly
from sandkeeper.cli.sandboxes import Object, ready_of

__all__ = ["wait_until_ready"]


def wait_until_ready(cluster: Cluster, sandbox: Object, *, seconds: float) -> Object:
    """Return the Sandbox once it says Ready=True; a Failure with its last reason after so many seconds."""
    deadline = time.monotonic() + seconds
    current = sandbox
    while not ready_of(current):
        left = deadline - time.monotonic()
        if left <= 0:
            raise Failure(f"Not ready after {seconds:g} s: {ready_of(current)}")
        current = _next(cluster, current, seconds=left)
    return current


def _next(cluster: Cluster, sandbox: Object, *, seconds: float) -> Object:
    """Return the Sandbox at its next change, or as it was if none comes in time."""
    from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - slow to import

    name = sandbox["metadata"]["name"]
    since = sandbox["metadata"]["resourceVersion"]
    with plainly(f"watch Sandbox {name!r}"):
        try:
            for kind, current in cluster.changes(name, since=since, seconds=seconds):
                if kind == "DELETED":
                    raise Failure(f"Sandbox {name!r} was deleted meanwhile.")
                return current
        except ApiException as error:
            if error.status != EXPIRED:
                raise
            return cluster.get(name)
    return sandbox
