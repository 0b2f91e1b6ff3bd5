"""What a scrape costs an operator that holds thousands: in this process, without cluster and engine."""

import asyncio
import gc
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bench.figures import Json, Section, Series, Table
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.lifecycle.churn import Change
from sandkeeper.reconcile.operator import Operator
from sandkeeper.telemetry.health import HealthServer
from testbed import progress

__all__ = ["measure"]

_POLICIES = 101
"""All that are told apart, and one more."""
_PHASES = ("Ready", "Ready", "Ready", "Pruned", "Failed")
_TRIES = 40
_PAUSE = 0.05


async def measure(*, held: int) -> Section:
    """Scrape an operator that holds so many Sandboxes of a hundred policies, each of which saw every change."""
    operator = _holding(held)
    gc.collect()
    gc.freeze()  # as the operator does when it has listed everything
    server = HealthServer(registry=operator.metrics.registry, missing=list)
    port = await server.start(host="127.0.0.1", port=0)
    url = f"http://127.0.0.1:{port}/metrics"
    turns, calm, own, size = list[float](), list[float](), list[float](), 0
    try:
        for _ in range(_TRIES):
            calm.append(await _longest_turn(asyncio.sleep(_PAUSE), time.perf_counter))
            page = asyncio.get_running_loop().run_in_executor(None, _get, url)
            turns.append(await _longest_turn(page, time.perf_counter))
            page = asyncio.get_running_loop().run_in_executor(None, _get, url)
            own.append(await _longest_turn(page, time.thread_time))
            size = len(page.result().splitlines())
    finally:
        gc.unfreeze()
        await server.stop()
    progress.say("Scraped")
    rows = tuple(
        (what, f"{one.p50 * 1e3:.1f} ms", f"{one.p90 * 1e3:.1f} ms", f"{max(one.samples) * 1e3:.1f} ms")
        for what, one in (
            ("longest turn during a scrape, processor time", Series.of(own)),
            ("longest turn during a scrape", Series.of(turns)),
            ("longest turn without a scrape", Series.of(calm)),
        )
    )
    figures: Json = {
        "held": held,
        "lines": size,
        "longestTurnProcessor": Series.of(own).to_json(),
        "longestTurn": Series.of(turns).to_json(),
        "calm": Series.of(calm).to_json(),
    }
    return Section(
        name="scrape",
        title="A scrape",
        method=f"An operator in this process holds {held:,} Sandboxes of {_POLICIES} policies, and every change was "
        f"counted of each policy: {size:,} lines. It is scraped {2 * _TRIES} times by a thread; meanwhile a task takes "
        "every turn of the event loop that it can get, and notes the longest that it had to wait for one: by the "
        "processor time of the loop's thread, and by the clock, which counts all else that the machine does.",
        headline=f"A scrape of an operator that holds {held:,} keeps its event loop from others for "
        f"{Series.of(own).p50 * 1e3:.1f} ms at a time.",
        tables=(Table(("", "p50", "p90", "longest"), rows),),
        data=figures,
    )


def _holding(held: int) -> Operator:
    operator = Operator(OperatorConfig(), leader_election=False, health=("127.0.0.1", 0))
    claims = operator._claims  # nobody else fills them without a cluster
    claims.namespaces.put(_raw("team", namespace=None))
    for number in range(_POLICIES):
        claims.policies.put(_raw(f"policy-{number}", spec={}))
    for number in range(held):
        name, phase = f"sandbox-{number}", _PHASES[number % len(_PHASES)]
        spec = {"agentId": name, "policyRef": {"name": f"policy-{number % _POLICIES}"}}
        status = {"phase": phase, "key": f"agent:{name}", "backend": "docker"}
        claims.sandboxes.put(_raw(name, spec=spec, status=status))
    for number in range(_POLICIES):
        policy = operator.metrics.policies.label(f"policy-{number}")
        for change in Change:
            operator.metrics.churn[change.value, "", "docker", policy].inc()
    return operator


def _raw(name: str, *, namespace: str | None = "team", **rest: Any) -> Mapping[str, Any]:
    metadata = {
        "name": name,
        "uid": name,
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-02T03:00:00Z",
    }
    return {"metadata": metadata | ({"namespace": namespace} if namespace else {}), **rest}


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


async def _longest_turn(what: Awaitable[object], clock: Callable[[], float]) -> float:
    """Wait for something; return for how many seconds at most nobody else had a turn meanwhile."""
    waiting = asyncio.ensure_future(what)
    longest, last = 0.0, clock()
    while not waiting.done():
        await asyncio.sleep(0)
        now = clock()
        longest, last = max(longest, now - last), now
    await waiting
    return longest
