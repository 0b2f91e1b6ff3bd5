"""The operator with one step at which it dies by SIGKILL: ``python -m support.crashing STEP run --config ...``.

STEP is ``before:NAME`` or ``after:NAME``, NAME a step that changes something: a method of the Docker backend
(create, start, setup, remove ...), of the other one (pod.create ...), or a write (status, finalizer). ``NAME*N`` dies
at the N-th time. Nothing of the operator is replaced; the step is carried out by its own code, and the process is gone
before or after it.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from sandkeeper.cli import main
from sandkeeper.reconcile.keeper import Keeper
from sandkeeper.runtimes.docker import DockerRuntimes
from sandkeeper.runtimes.pod.backend import PodRuntimes

_POD = "pod."
_WRITES = {"status": "write_status", "finalizer": "add_finalizer", "release": "drop_finalizer"}


def _dying(method: Callable[..., Any], *, before: bool, times: int) -> Callable[..., Any]:
    left = times

    async def step(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if before and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await method(*args, **kwargs)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return step


def _place(name: str) -> tuple[type, str]:
    if name in _WRITES:
        return Keeper, _WRITES[name]
    if name.startswith(_POD):
        return PodRuntimes, name.removeprefix(_POD)
    return DockerRuntimes, name


def arm(step: str) -> None:
    """Set the step at which this process dies."""
    when, _, rest = step.partition(":")
    name, _, times = rest.partition("*")
    owner, method = _place(name)
    original = getattr(owner, method)
    setattr(owner, method, _dying(original, before=when == "before", times=int(times or 1)))


if __name__ == "__main__":
    arm(sys.argv.pop(1))
    main()
