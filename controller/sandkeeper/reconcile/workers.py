"""What is done with the keys of the queue: a pass over each, and another one where that came to no end."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from sandkeeper.api.errors import SandkeeperError
from sandkeeper.cluster.api import ApiError, Conflict, NotFound
from sandkeeper.cluster.leadership import NotLeader
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.reconcile.deadlines import Deadlines
from sandkeeper.reconcile.passes import Reconciler
from sandkeeper.reconcile.queue import KeyedQueue
from sandkeeper.telemetry.logs import reconciling
from sandkeeper.telemetry.metrics import Metrics
from sandkeeper.telemetry.tracing import Tracer

__all__ = ["Workers"]

logger = logging.getLogger(__name__)

_FIRST_RETRY: Final = 0.25
_LONGEST_RETRY: Final = 60.0


class Workers:
    """Take keys from the queue, of the namespaces that are led.

    Each worker is a task of its own. What fails is tried again, ever more slowly, and never ends a worker.
    """

    def __init__(
        self,
        *,
        reconciler: Reconciler,
        queue: KeyedQueue[RuntimeKey],
        deadlines: Deadlines[RuntimeKey],
        leads: Callable[[str], bool],
        is_stopping: Callable[[], bool],
        metrics: Metrics,
        tracer: Tracer,
        now: Callable[[], datetime],
    ) -> None:
        self._reconciler = reconciler
        self._queue = queue
        self._deadlines = deadlines
        self._leads = leads
        self._is_stopping = is_stopping
        self._metrics = metrics
        self._tracer = tracer
        self._now = now
        self._retries: dict[RuntimeKey, int] = {}

    async def work(self) -> None:
        """Be one worker, until no more keys are to be taken."""
        while not self._is_stopping():
            key = await self._queue.get()
            try:
                # Whoever comes to lead a namespace looks at all of it, so what is not led now is left alone.
                if not self._is_stopping() and self._leads(key.namespace):
                    await self._look(key)
            finally:
                self._queue.done(key)
            # Most passes ask nobody anything, and so would never let others have their turn: the lease, above all.
            await asyncio.sleep(0)

    async def _look(self, key: RuntimeKey) -> None:
        about = {"key": str(key), "namespace": key.namespace, "policy": key.policy}
        with (
            reconciling(**about) as reconcile_id,
            self._tracer.span({"reconcileID": reconcile_id, **about}) as span,
        ):
            began = time.monotonic()
            result, rule = await self._pass(key)
            exemplar = {"trace_id": span.trace_id} if span.trace_id is not None else None
            self._metrics.reconcile_seconds.observe(time.monotonic() - began, exemplar)
            self._metrics.reconciles[result, rule].inc()
            span.end(result=result, rule=rule)

    async def _pass(self, key: RuntimeKey) -> tuple[str, str]:
        """Make one pass, and see to it that one that came to no end is made again; return how and by what it ended."""
        try:
            rule = await self._reconciler.look(key)
        except NotLeader:
            logger.debug("Leaving %s to whoever leads its namespace now", key)
            return "not_leader", ""
        except (Conflict, NotFound):
            self._look_again(key)
            return "conflict", ""
        except (ApiError, SandkeeperError) as error:
            self._retry(key, str(error))
            return "error", ""
        except Exception:
            logger.exception("A pass over %s failed; it is tried again", key)
            self._retry(key, "see above")
            return "error", ""
        self._retries.pop(key, None)
        return "success", rule

    def _look_again(self, key: RuntimeKey) -> None:
        """Look at what somebody wrote meanwhile, which is in the cache by now; with a pause if that happens again."""
        if key in self._retries:
            self._retry(key, "the object keeps changing")
        else:
            self._retries[key] = 0
            self._metrics.retries.inc()
            self._queue.add(key)

    def _retry(self, key: RuntimeKey, why: str) -> None:
        count = self._retries[key] = self._retries.get(key, 0) + 1
        self._metrics.retries.inc()
        delay = min(_FIRST_RETRY * 2 ** min(count, 16), _LONGEST_RETRY)
        delay *= random.uniform(0.9, 1.1)  # noqa: S311 - spreads load
        logger.warning("Trying %s again in %.1f s: %s", key, delay, why)
        self._deadlines.set(key, self._now() + timedelta(seconds=delay))
