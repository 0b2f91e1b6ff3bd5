"""What the pure parts cost: no cluster, no engine, one call after the other in this process."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from bench.figures import Json, Section, Series, Table
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.canonical import config_hash
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.config.outcomes import Outcomes
from sandkeeper.config.resolution import Resolution
from sandkeeper.config.resolve import resolve
from sandkeeper.lifecycle import Claimant, Observed, Record, RuntimeState, Situation, Wanted, decide
from sandkeeper.reconcile.objects import SandboxObject
from testbed import progress

__all__ = ["measure"]

_BATCHES = 30
_RESOLVE = "resolve() a Sandbox"
_AGAIN = "resolve() one like another before"
_DECIDE = "decide() that nothing is to be done"
_NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)

_POLICY: Json = {
    "container": {
        "image": "debian:bookworm-slim",
        "memory": "1g",
        "cpus": 1.5,
        "pidsLimit": 256,
        "env": {"EDITOR": "vi", "PAGER": "less"},
    },
    "agents": [
        {"id": f"agent-{number}", "container": {"env": {"NUMBER": str(number)}}} for number in range(20)
    ],
}
_SPEC: Json = {"agentId": "agent-7", "sessionKey": "main"}
_RAW: Json = {
    "metadata": {
        "namespace": "team",
        "name": "rain",
        "uid": "0000-1111",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-10T11:00:00Z",
        "annotations": {"sandkeeper.dev/last-used": "2026-01-10T11:59:00Z"},
    },
    "spec": _SPEC,
}


def measure(*, calls: int) -> Section:
    """Time batches of ``calls``."""
    spec = SandboxSpec.model_validate(_SPEC)
    policies = {("team", "default"): AgentSandboxPolicySpec.model_validate(_POLICY)}
    operator = OperatorConfig()

    def resolved(outcomes: Outcomes | None = None) -> Resolution:
        return resolve(
            namespace="team",
            namespace_uid="0000",
            spec=spec,
            policies=policies,
            recorded_policy=None,
            operator=operator,
            outcomes=outcomes,
        )

    outcomes = Outcomes()

    resolution = resolved()
    config, wanted = resolution.config, resolution.config_hash
    assert config is not None
    assert wanted is not None
    situation = _situation(resolution, wanted)
    assert decide(situation).effect is None
    parts: dict[str, Callable[[], object]] = {
        "read a Sandbox from JSON": lambda: SandboxObject.parse(_RAW),
        _RESOLVE: resolved,
        "of which config_hash()": lambda: config_hash(config),
        _AGAIN: lambda: resolved(outcomes),
        _DECIDE: lambda: decide(situation),
        "decide() to create": lambda: decide(_without(situation)),
    }
    timed = {what: _time(call, calls) for what, call in parts.items()}
    progress.say("The pure parts: timed")
    rows = tuple(
        (what, f"{one.p50 * 1e6:.0f} µs", f"{one.p90 * 1e6:.0f} µs", str(calls * _BATCHES))
        for what, one in timed.items()
    )
    return Section(
        name="pure",
        title="The pure parts",
        method=f"Processor time of one call, from {_BATCHES} batches of {calls}. The policy has 20 agents.",
        headline=f"Resolving a Sandbox and deciding about it take {_micros(timed, _RESOLVE, _DECIDE)} µs, and "
        f"{_micros(timed, _AGAIN, _DECIDE)} µs where the operator resolved one like it before.",
        tables=(Table(("", "p50", "p90", "calls"), rows),),
        data={
            what: {"p50": round(one.p50 * 1e6, 1), "p90": round(one.p90 * 1e6, 1), "unit": "µs"}
            for what, one in timed.items()
        },
    )


def _situation(resolution: Resolution, wanted: str) -> Situation:
    used = _NOW - timedelta(minutes=1)
    claimant = Claimant(
        uid="0000-1111",
        name="rain",
        created_at=_NOW - timedelta(days=1),
        desire=Wanted(backend="docker", config_hash=wanted, has_setup=False, windows=resolution.windows),
        last_used=used.isoformat(),
        record=Record(
            runtime_id="r1", backend="docker", node="engine", config_hash=wanted, last_used_at=used
        ),
        has_status=True,
    )
    observed = Observed(
        backend="docker",
        id="r1",
        name="sandkeeper-rain",
        node="engine",
        state=RuntimeState.RUNNING,
        created_at=_NOW - timedelta(days=1),
        config_hash=wanted,
        image="debian:bookworm-slim",
        has_setup=False,
    )
    return Situation(claimants=(claimant,), observed=observed, now=_NOW)


def _without(situation: Situation) -> Situation:
    return Situation(claimants=situation.claimants, observed=None, now=situation.now)


def _micros(timed: Mapping[str, Series], *parts: str) -> str:
    return f"{sum(timed[part].p50 for part in parts) * 1e6:.0f}"


def _time(call: Callable[[], object], calls: int) -> Series:
    for _ in range(calls):
        call()
    batches = []
    for _ in range(_BATCHES):
        began = time.process_time()
        for _ in range(calls):
            call()
        batches.append((time.process_time() - began) / calls)
    return Series.of(batches)
