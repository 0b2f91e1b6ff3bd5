"""A long command is one long use: while it runs, uses are recorded often enough for the runtime to stay hot."""

import threading
from types import TracebackType
from typing import Final, Self

import click

from sandkeeper.cli.cluster import Cluster
from sandkeeper.cli.failures import Failure
from sandkeeper.cli.sandboxes import Object
from sandkeeper.config.builtin import BUILT_IN

__all__ = ["KeptAlive", "interval_of"]

_PART: Final = 3
"""Uses in one hot window: one may be lost, and another late."""
_SHORTEST: Final = 1.0
_FALLBACK: Final = float(BUILT_IN.hot_window_seconds or 300)


class KeptAlive:
    """Records a use every so many seconds, from entering to leaving; and one more when it is left."""

    def __init__(self, cluster: Cluster, name: str, *, interval: float) -> None:
        self._cluster = cluster
        self._name = name
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keepalive", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._touch()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            self._touch()

    def _touch(self) -> None:
        try:
            self._cluster.touch(self._name)
        except Failure as failure:
            # The command itself goes on, or is done: that the use went unrecorded is no failure of it.
            click.echo(f"This use was not recorded: {failure.message}", err=True)


def interval_of(cluster: Cluster, sandbox: Object) -> float:
    """Return how often a use has to be recorded, from the policy as applied; built-in where that cannot be read."""
    applied = str(sandbox.get("status", {}).get("policy") or "")
    namespace, slash, name = applied.partition("/")
    spec = cluster.policy(name, namespace=namespace) if slash else None
    if spec is None:
        return _FALLBACK / _PART
    agent = sandbox["spec"]["agentId"]
    levels = [spec, *(entry for entry in spec.get("agents", []) if entry["id"] == agent)]
    # An entry does not apply with scope shared. The shortest is right for either.
    windows = [level["hotWindowSeconds"] for level in levels if level.get("hotWindowSeconds")]
    return max(_SHORTEST, min(windows, default=_FALLBACK) / _PART)
