"""The operator with a pencil beside it: it notes when each of its steps began and ended, and does nothing else.

``python -m bench.tracing FILE run --config ...`` is ``sandkeeper run --config ...``. The clock is CLOCK_MONOTONIC,
which all processes of a machine share, so that the operator's notes and its client's are on one line of time.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.operator import OperatorProcess

__all__ = ["TracedOperator"]


class TracedOperator(OperatorProcess):
    """One run of the operator that leaves notes."""

    def __init__(self, *, config: Path, log: Path, env: dict[str, str], trace: Path) -> None:
        self.config = config
        self.log = log
        arguments = ["run", "--config", str(config), "--health-host", "127.0.0.1", "--health-port", "0"]
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bench.tracing", str(trace), *arguments],
                stdout=sink,
                stderr=sink,
                env=env,
                start_new_session=True,
            )


class _Pencil:
    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - as long as the process

    def note(self, step: str, began: float, **facts: str) -> None:
        self._file.write(
            json.dumps({"step": step, "began": began, "ended": time.monotonic(), **facts}) + "\n"
        )

    def around(self, owner: Any, method: str, step: str, facts: Callable[..., dict[str, str]]) -> None:
        """Note each call of an asynchronous method."""
        original = getattr(owner, method)

        async def noted(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic()
            try:
                return await original(*args, **kwargs)
            finally:
                self.note(step, began, **facts(*args, **kwargs))

        setattr(owner, method, noted)

    def around_sync(self, owner: Any, method: str, step: str, facts: Callable[..., dict[str, str]]) -> None:
        """Note each call of a method."""
        original = getattr(owner, method)

        def noted(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic()
            try:
                return original(*args, **kwargs)
            finally:
                self.note(step, began, **facts(*args, **kwargs))

        setattr(owner, method, noted)


def _arm(path: str) -> None:
    from docker import APIClient

    from sandkeeper.cluster.api import KubeApi
    from sandkeeper.cluster.caches import Cache
    from sandkeeper.reconcile import passes
    from sandkeeper.reconcile.keeper import Keeper
    from sandkeeper.runtimes.docker import DockerRuntimes
    from sandkeeper.runtimes.pod.backend import PodRuntimes

    pencil = _Pencil(path)

    def of_key(_: Any, key: Any, *__: Any, **___: Any) -> dict[str, str]:
        return {"about": str(key.scope).removeprefix("agent:")}

    def of_order(_: Any, order: Any) -> dict[str, str]:
        return {"about": str(order.key.scope).removeprefix("agent:")}

    def of_sandbox(_: Any, sandbox: Any, *__: Any) -> dict[str, str]:
        return {"about": sandbox.name}

    def of_raw(_: Any, raw: Any) -> dict[str, str]:
        containers = (raw.get("status") or {}).get("containerStatuses") or [{}]
        return {
            "about": raw["metadata"]["name"],
            "version": raw["metadata"]["resourceVersion"],
            "runs": str("running" in (containers[0].get("state") or {})),
        }

    def of_request(_: Any, resource: Any, *__: Any, **___: Any) -> dict[str, str]:
        return {"resource": resource.plural}

    def of_nothing(*_: Any, **__: Any) -> dict[str, str]:
        return {}

    pencil.around_sync(Cache, "put", "put", of_raw)
    pencil.around(passes.Reconciler, "look", "pass", of_key)
    pencil.around(Keeper, "add_finalizer", "finalizer", of_sandbox)
    pencil.around(Keeper, "write_status", "status", of_sandbox)
    pencil.around(DockerRuntimes, "observe", "observe", of_key)
    pencil.around(DockerRuntimes, "create", "create", of_order)
    pencil.around(PodRuntimes, "create", "create", of_order)
    for verb in ("get", "create", "replace", "patch", "delete"):
        pencil.around(KubeApi, verb, f"api {verb}", of_request)
    for call in ("create_container_from_config", "start", "inspect_container", "info"):
        pencil.around_sync(APIClient, call, f"engine {call}", of_nothing)


if __name__ == "__main__":
    _arm(sys.argv.pop(1))
    from sandkeeper.cli import main

    main()
