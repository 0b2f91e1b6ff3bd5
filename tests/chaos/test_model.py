"""Bad worlds made by hand: each kind of violation is found, and a good world has none."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chaos.model import Model, Policy, SeenRuntime, SeenSandbox, Wish, World, violations

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOT, IDLE = timedelta(seconds=4), timedelta(seconds=15)
LATE = timedelta(seconds=10)

Change = Callable[[Model, World], World]


def wish(name: str, **changed: object) -> Wish:
    made = Wish(name=name, uid=f"uid-{name}", agent=name, policy="steady", used_at=NOW - timedelta(seconds=5))
    return replace(made, **changed)  # type: ignore[arg-type]


def runtime(name: str, policy: str = "steady") -> SeenRuntime:
    return SeenRuntime(
        id=f"pod-{name}", name=f"sbx-{name}", key=(policy, f"agent:{name}"), running=True, mark="7"
    )


def sandbox(name: str, runtime_of: str | None = None) -> SeenSandbox:
    return SeenSandbox(
        name=name,
        uid=f"uid-{name}",
        ready="True",
        reason="Running",
        runtime_id=f"pod-{runtime_of or name}",
        config_hash="v1-a",
        desired_config_hash="v1-a",
    )


def stopped(name: str) -> SeenSandbox:
    return SeenSandbox(name=name, uid=f"uid-{name}", ready="False", reason="Stopped")


def pruned(name: str) -> SeenSandbox:
    return SeenSandbox(name=name, uid=f"uid-{name}", ready="False", reason="Idle")


def good() -> tuple[Model, World]:
    """One of each: alone, two that share, stopped, pruned, held though idle, and what belongs to others."""
    long_ago = NOW - timedelta(seconds=60)
    wishes = [
        wish("rain"),
        wish("tio"),
        wish("guest", agent="tio"),
        wish("rests", stopped=True),
        wish("idle", policy="brief", used_at=long_ago),
        wish("held", policy="brief", used_at=long_ago, held_until=NOW + HOT),
    ]
    model = Model(
        policies={"steady": Policy(mark="7", hot=HOT), "brief": Policy(mark="7", hot=HOT, idle=IDLE)},
        wishes={one.name: one for one in wishes},
        bystanders={"the Pod plain": "uid at 1"},
    )
    world = World(
        now=NOW,
        sandboxes=[
            sandbox("rain"),
            sandbox("tio"),
            sandbox("guest", runtime_of="tio"),
            stopped("rests"),
            pruned("idle"),
            sandbox("held"),
        ],
        runtimes=[runtime("rain"), runtime("tio"), runtime("held", "brief")],
        bystanders={"the Pod plain": "uid at 1"},
    )
    return model, world


def test_a_good_world_has_no_violation() -> None:
    assert violations(*good()) == []


def with_sandbox(name: str, **changed: object) -> Change:
    def change(_: Model, world: World) -> World:
        seen = [
            replace(one, **changed) if one.name == name else one  # type: ignore[arg-type]
            for one in world.sandboxes
        ]
        return replace(world, sandboxes=seen)

    return change


def with_runtime(name: str, **changed: object) -> Change:
    def change(_: Model, world: World) -> World:
        seen = [
            replace(one, **changed) if one.id == f"pod-{name}" else one  # type: ignore[arg-type]
            for one in world.runtimes
        ]
        return replace(world, runtimes=seen)

    return change


def without_runtime(name: str) -> Change:
    return lambda _, world: replace(
        world, runtimes=[one for one in world.runtimes if one.id != f"pod-{name}"]
    )


def and_runtime(more: SeenRuntime) -> Change:
    return lambda _, world: replace(world, runtimes=[*world.runtimes, more])


def without_sandbox(name: str) -> Change:
    return lambda _, world: replace(world, sandboxes=[one for one in world.sandboxes if one.name != name])


def bystander(**found: str) -> Change:
    return lambda _, world: replace(world, bystanders=found)


def deleted(name: str) -> Change:
    def change(model: Model, world: World) -> World:
        del model.wishes[name]
        return world

    return change


def asked_anew(model: Model, world: World) -> World:
    model.wishes["rain"].recreate = "3"
    return world


BAD: dict[str, tuple[Change, str]] = {
    "lost": (without_sandbox("rain"), "rain is lost"),
    "another": (with_sandbox("rain", uid="uid-other"), "rain is another one"),
    "not gone": (deleted("rests"), "rests is still there"),
    "hangs": (with_sandbox("rain", ready="False", reason="Creating"), "should be True/Running"),
    "no status": (with_sandbox("rain", ready="", reason=""), "should be True/Running"),
    "an older spec": (with_sandbox("rain", is_current=False), "an older spec"),
    "an older spec, stopped": (with_sandbox("rests", is_current=False), "an older spec"),
    "none": (without_runtime("rain"), "0 runtimes where there should be one"),
    "double": (
        and_runtime(replace(runtime("rain"), id="pod-second")),
        "2 runtimes where there should be one",
    ),
    "listed twice": (and_runtime(runtime("rain")), "pod-rain is there 2 times"),
    "dead": (with_runtime("rain", running=False), "does not run"),
    "going": (with_runtime("rain", ending=True), "does not run"),
    "an older edit": (with_runtime("rain", mark="6"), "was made from edit 6"),
    "names another": (with_sandbox("rain", runtime_id="pod-old"), "its status names pod-old"),
    "names none": (with_sandbox("guest", runtime_id=None), "its status names None"),
    "drifted": (with_sandbox("rain", desired_config_hash="v1-b"), "v1-b is wanted"),
    "not recreated": (asked_anew, "recreate=3 was not honoured"),
    "stopped, and runs": (and_runtime(runtime("rests")), "stopped, but sbx-rests (running) runs"),
    "stopped, and says it runs": (
        with_sandbox("rests", ready="True", reason="Running"),
        "should be False/Stopped",
    ),
    "pruned, and runs": (and_runtime(runtime("idle", "brief")), "pruned, but sbx-idle (running) is there"),
    "not pruned": (with_sandbox("idle", ready="True", reason="Running"), "should be False/Idle"),
    "pruned though held": (without_runtime("held"), "0 runtimes where there should be one"),
    "orphan": (and_runtime(runtime("nobody")), "sbx-nobody (running) is an orphan"),
    "orphan of one deleted": (deleted("rain"), "sbx-rain (running) is an orphan"),
    "a foreign one is gone": (bystander(), "somebody else's, and it is gone"),
    "a foreign one was touched": (bystander(**{"the Pod plain": "uid at 2"}), "and it was touched"),
}


@pytest.mark.parametrize(("change", "told"), BAD.values(), ids=BAD)
def test_it_is_found(change: Change, told: str) -> None:
    model, world = good()
    found = violations(model, change(model, world))
    assert [one for one in found if told in one], found


def test_a_stopped_container_may_stay_and_a_second_may_not() -> None:
    model, world = good()
    rests = replace(runtime("rests"), running=False)
    assert violations(model, and_runtime(rests)(model, world)) == []
    twice = and_runtime(replace(rests, id="pod-second"))(model, and_runtime(rests)(model, world))
    assert violations(model, twice) == ["('steady', 'agent:rests'): 2 runtimes"]


def test_who_shares_with_one_that_runs_is_ready_though_stopped() -> None:
    model, world = good()
    model.wishes["guest"].stopped = True
    assert violations(model, world) == []


@pytest.mark.parametrize(
    ("overdue", "allowed"),
    [(0, {"runs"}), (1, {"runs", "pruned"}), (10, {"runs", "pruned"}), (11, {"pruned"})],
)
def test_who_is_not_used_runs_until_its_time_and_may_be_pruned_a_little_later(
    overdue: int, allowed: set[str]
) -> None:
    model, world = good()
    model.wishes["idle"].used_at = NOW - IDLE - timedelta(seconds=overdue)
    runs = and_runtime(runtime("idle", "brief"))(model, world)
    seen = [sandbox("idle") if one.name == "idle" else one for one in runs.sandboxes]
    worlds = {"pruned": world, "runs": replace(runs, sandboxes=seen)}
    assert {name for name, one in worlds.items() if not violations(model, one)} == allowed


def test_who_is_not_used_is_neither_half_running_nor_half_pruned() -> None:
    model, world = good()
    model.wishes["idle"].used_at = NOW - IDLE - timedelta(seconds=5)
    assert violations(model, and_runtime(runtime("idle", "brief"))(model, world)) != []


def test_nothing_is_due_any_more_when_all_is_cold_idle_and_let_go() -> None:
    model, _ = good()
    assert model.rests_at() == NOW + HOT
    model.wishes["idle"].used_at = NOW
    assert model.rests_at() == NOW + IDLE + LATE
    assert Model().rests_at() is None
