"""One run: two replicas of a real operator under churn, a real Prometheus that scrapes them, and what it answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from bench.stage import Stage
from support.prometheus import Prometheus, Target, a_prometheus
from watching.boards import Panel, Query
from watching.churn import Churn, setting
from watching.rules import RULES

__all__ = ["INTERVAL", "JOB", "NAMESPACE", "Run", "a_run"]

NAMESPACE: Final = "sandkeeper-system"
JOB: Final = "sandkeeper"
INTERVAL: Final = 2.0
"""Seconds between two scrapes."""

_RATE_INTERVAL: Final = 16
"""What Grafana puts for `$__rate_interval` where a point of the graph is 14 s: that and a scrape's interval."""


@dataclass(frozen=True)
class Run:
    """What can be asked after a run."""

    prometheus: Prometheus
    start: float
    end: float
    done: Mapping[str, int]

    def variables(self, **chosen: str) -> dict[str, str]:
        """Return what Grafana puts for the variables; of what is not chosen, all."""
        everything = {"namespace": ".*", "job": ".*", "policy": ".*"}
        times = {
            "__rate_interval": f"{_RATE_INTERVAL}s",
            "__range": f"{self.end - self.start:.0f}s",
        }
        return everything | times | chosen

    def ask(self, panel: Panel, query: Query, **chosen: str) -> list[dict[str, Any]]:
        """Ask what the panel asks, over the whole run."""
        expression = query.expression(self.variables(**chosen))
        if query.is_instant:
            found = self.prometheus.query(expression, at=self.end)
            return [{"metric": each["metric"], "values": [each["value"]]} for each in found]
        return self.prometheus.query_range(expression, start=self.start, end=self.end, step=INTERVAL)


@asynccontextmanager
async def a_run(stage: Stage, *, seconds: float) -> AsyncIterator[Run]:
    """Let it run for so long, and give what can be asked then."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(setting(stage))
        operators = [await stack.enter_async_context(stage.operator(**Churn.OPERATOR)) for _ in range(2)]
        targets = [
            Target(urlsplit(each.url("/")).netloc, {"namespace": NAMESPACE, "job": JOB}) for each in operators
        ]
        made = a_prometheus(stage.folder, targets, interval=INTERVAL, rules=sorted(RULES.glob("*.yaml")))
        prometheus = await asyncio.to_thread(made.__enter__)
        stack.push_async_callback(asyncio.to_thread, made.__exit__, None, None, None)
        start = time.time()
        churn = Churn(stage, seconds=seconds)
        await churn.run()
        await asyncio.sleep(INTERVAL)
        yield Run(prometheus, start, time.time(), dict(churn.done))
