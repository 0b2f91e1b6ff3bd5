"""One run: two replicas of a real operator under churn, a real Prometheus that scrapes them, and what it answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from bench.stage import Stage
from sandkeeper.lifecycle.churn import Change
from support.prometheus import Prometheus, Target, a_prometheus
from watching.boards import Panel, Query
from watching.churn import Churn, setting
from watching.rules import RULES

__all__ = ["INTERVAL", "JOB", "NAMESPACE", "Run", "a_run"]

NAMESPACE: Final = "sandkeeper-system"
JOB: Final = "sandkeeper"
INTERVAL: Final = 2.0
"""Seconds between two scrapes."""

_PATIENCE: Final = 120.0
_PRUNED: Final = {("pruned", "idle"), ("pruned", "age")}
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
        start, churn = time.time(), Churn(stage)
        async with asyncio.TaskGroup() as group:
            group.create_task(churn.run())
            await asyncio.sleep(seconds)
            await _everything_happened(prometheus)
            churn.end()
        await asyncio.sleep(2 * INTERVAL)  # a rate wants two scrapes
        yield Run(prometheus, start, time.time(), dict(churn.done))


async def _everything_happened(prometheus: Prometheus) -> None:
    """Wait for what a slow machine has not come to; what does not happen at all, the tests tell."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = await asyncio.to_thread(prometheus.query, "sum by (change, reason) (sandkeeper_churn_total)")
        told = {(each["metric"]["change"], each["metric"].get("reason")) for each in found}
        if {change.value for change in Change} <= {change for change, _ in told} and told >= _PRUNED:
            return
        await asyncio.sleep(INTERVAL)
