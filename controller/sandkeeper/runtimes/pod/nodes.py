"""Whether a Pod's node still answers: asked only where a Pod looks as if it did not."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakValueDictionary

from sandkeeper.api.conditions import Reason
from sandkeeper.cluster.api import ApiError, KubeApi, NotFound
from sandkeeper.cluster.resources import NODES
from sandkeeper.lifecycle.model import Observed, RuntimeState, Unreachable
from sandkeeper.runtimes.pod.view import PodView

__all__ = ["Nodes"]

logger = logging.getLogger(__name__)

_BELIEVED_SECONDS: Final = 5.0
"""Many Pods of one node look lost at once, and it is asked after once."""


class Nodes:
    """Tells a Pod that takes its time from one whose node is lost. Nothing is ever forced: what ran may still run."""

    def __init__(self, api: KubeApi, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._api = api
        self._now = now
        self._troubles: dict[str, tuple[float, str]] = {}
        """When (monotonic) a node was found in trouble, and in which."""
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def judge(self, pod: PodView) -> Observed | Unreachable:
        """Say how a Pod is, with a look at its node where that is in doubt."""
        seen = pod.observed()
        now = self._now()
        stuck = pod.is_stuck(now)
        if not (stuck or pod.is_out_of_touch or pod.is_slow(now)):
            return seen
        trouble = await self._trouble(pod.node) if pod.node else None
        if trouble is not None:
            return Unreachable(reason=Reason.NODE_LOST, message=trouble)
        if not stuck:
            return seen
        message = (
            f"The Pod {pod.name} was to be gone at {pod.deleting_at:%Y-%m-%dT%H:%M:%SZ}, and its node answers: "
            "something holds it, such as a finalizer. Nothing is put beside it."
        )
        return replace(seen, state=RuntimeState.TERMINATING, ended=None, message=message)

    async def _trouble(self, name: str) -> str | None:
        """Tell what is wrong with a node.

        That nothing is wrong is not remembered: a Pod that looks lost a moment later has a newer reason to ask.
        """
        asking = self._asking.setdefault(name, asyncio.Lock())
        async with asking:
            oldest = time.monotonic() - _BELIEVED_SECONDS
            self._troubles = {node: known for node, known in self._troubles.items() if known[0] >= oldest}
            if name in self._troubles:
                return self._troubles[name][1]
            trouble = await self._ask(name)
            if trouble is not None:
                self._troubles[name] = (time.monotonic(), trouble)
            return trouble

    async def _ask(self, name: str) -> str | None:
        try:
            node = await self._api.get(NODES, name=name)
        except NotFound:
            return (
                f"Its node {name} is gone. The control plane removes the Pod in a minute or so, and then a new one "
                "is made."
            )
        except ApiError as error:
            logger.debug("Cannot look at the node %s: %s", name, error)
            return f"It cannot be seen whether its node {name} answers ({error.message}), and the Pod looks as if not."
        ready = _ready(node)
        if ready.get("status") == "True":
            return None
        since = ready.get("lastTransitionTime", "an unknown time")
        is_heard_of = ready.get("status") == "False"
        how = f"is not ready ({ready.get('message', '')})" if is_heard_of else "has not answered"
        return (
            f"Its node {name} {how} since {since}. What ran there may still run, so nothing is forced: it goes on when "
            "the node is back, or is deleted, or is tainted node.kubernetes.io/out-of-service."
        )


def _ready(node: dict[str, Any]) -> dict[str, Any]:
    for condition in node.get("status", {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            found: dict[str, Any] = condition
            return found
    return {}
