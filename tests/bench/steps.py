"""The life of a thousand Sandboxes, each step done to all of them at once."""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from bench import phase, targets
from bench.contenders import OURS, POLICY, Field, field_of, sandbox, settled
from bench.figures import Json, Section
from bench.kube import pods, policies, sandboxes
from bench.phase import DRIFTED, PRUNED, READY, RECOVERED, REPLACED, Phase, all_of
from bench.stage import Stage
from bench.targets import Target
from sandkeeper.api.names import Annotation
from testbed import progress

__all__ = ["changed", "edit", "measure", "touch"]

_REMOVALS: Final[Json] = {"perMinute": 6000, "burst": 100}
"""Of the operator: with what is built in, 60 a minute, nothing but the budget would be measured."""
_A_DAY: Final = 86_400
_NEW: Final = "created"
_IDLE: Final = "idle all at once: pruned"


async def measure(stage: Stage, *, count: int, nodes: int) -> Section:
    """Lead ``count`` Sandboxes through their lives."""
    async with field_of(stage, nodes=nodes, names=(OURS,), replacements=_REMOVALS, prunes=_REMOVALS) as field:
        found = await _live(field, count)
    least = (count - _REMOVALS["burst"]) / (_REMOVALS["perMinute"] / 60)
    new, drained = found[_NEW], found[_IDLE]
    promised = (
        Target(what="writes for each new Sandbox", bound=2, measured=new.writes),
        Target(what=f"{count} idle ones drained", bound=60, unit=" s", measured=drained.seconds),
    )
    return Section(
        name="steps",
        title=f"The life of {count}, step by step",
        method=f"On {nodes} nodes whose kubelets are played. Each step is done to all at once, by a request for each "
        "or by one edit of the policy, and ends when the client's watch has seen every Sandbox where it leads. "
        "Processor time and writes are the operator's until it rests; writes are of Sandboxes and Pods, deletions "
        f"included. Here it may remove {_REMOVALS['perMinute']} a minute (`replacements`, `prunes`), so to replace or "
        f"prune all takes {max(0.0, least):.0f} s at the least.",
        tables=(phase.table(list(found.values())), targets.table(promised)),
        headline=f"{count} Sandboxes that become idle at once are pruned in {drained.seconds:.0f} s.",
        verdict=targets.verdict(promised),
        data={
            "count": count,
            "removals": _REMOVALS,
            "steps": {what: each.to_json() for what, each in found.items()},
            "targets": targets.to_json(promised),
        },
    )


async def _live(field: Field, count: int) -> dict[str, Phase]:
    first = [f"one-{number}" for number in range(count)]
    second = [f"two-{number}" for number in range(count)]
    found: dict[str, Phase] = {}

    async def step(
        what: str, names: Sequence[str], reached: re.Pattern[bytes], act: Callable[[], Awaitable[object]]
    ) -> None:
        found[what] = await phase.phase(field, what, names, reached, act)
        progress.say(f"{what}: {found[what].seconds:.1f} s")

    await step(_NEW, first, READY, lambda: all_of(first, partial(field.ours.make, field.kube)))
    await step(
        "a second of each agent: reused", second, READY, lambda: all_of(second, partial(_share, field))
    )
    await all_of(second, partial(_delete, field))
    assert field.ours.operator is not None
    await settled(field.ours.operator)
    await step("the policy edited, all hot: drifted", first, DRIFTED, lambda: edit(field, **changed("1")))
    await step("all cold: replaced", first, REPLACED, lambda: edit(field, hotWindowSeconds=1))
    there = await _on_half_of_the_nodes(field)
    await step(
        "half of the nodes drained: made again",
        list(there),
        RECOVERED,
        lambda: all_of(list(there.values()), partial(_evict, field)),
    )
    await step(_IDLE, first, PRUNED, lambda: edit(field, prune={"idleSeconds": 1}))
    await edit(field, prune={"idleSeconds": _A_DAY})
    await step("touched: back again", first, READY, lambda: all_of(first, partial(touch, field)))
    return found


def changed(value: str) -> Json:
    """Return what makes a policy another one for every Sandbox."""
    return {"container": {"env": {"EDITION": value}}}


async def edit(field: Field, policy: str = POLICY, **spec: Any) -> None:
    """Change a policy of Sandkeeper's namespace."""
    await field.kube.merge(policies(field.ours.namespace, policy), {"spec": spec})


async def touch(field: Field, name: str) -> None:
    """Say that a Sandbox is used now."""
    now = datetime.now(UTC).isoformat()  # to the microsecond: two within a second are two
    await field.kube.merge(
        sandboxes(field.ours.namespace, name), {"metadata": {"annotations": {Annotation.LAST_USED: now}}}
    )


async def _share(field: Field, name: str) -> None:
    agent = name.replace("two-", "one-")
    body = {**sandbox(name), "spec": {"agentId": agent, "sessionKey": "second"}}
    await field.kube.request("POST", field.ours.path, body=body)


async def _delete(field: Field, name: str) -> None:
    await field.kube.request("DELETE", sandboxes(field.ours.namespace, name))


async def _on_half_of_the_nodes(field: Field) -> dict[str, str]:
    """Return the Pods there, by Sandbox."""
    listed = (await field.kube.request("GET", pods(field.ours.namespace)))["items"]
    nodes = sorted({pod["spec"]["nodeName"] for pod in listed})
    half = nodes[: (len(nodes) + 1) // 2]
    return {
        pod["metadata"]["ownerReferences"][0]["name"]: pod["metadata"]["name"]
        for pod in listed
        if pod["spec"]["nodeName"] in half
    }


async def _evict(field: Field, pod: str) -> None:
    """Ask for what ``kubectl drain`` asks for."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    await field.kube.request("POST", f"{pods(field.ours.namespace, pod)}/eviction", body=body)
