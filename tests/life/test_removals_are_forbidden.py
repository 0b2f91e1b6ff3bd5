"""With ``removals: forbidden`` the operator removes nothing of its own accord, and says what it would have removed."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine, pytest.mark.timeout(400)]

SHORT: dict[str, Any] = {"hotWindowSeconds": 1, "prune": {"idleSeconds": 20}}
FOREVER: dict[str, Any] = {"hotWindowSeconds": 1}
Containers = Callable[[], list[Any]]


def is_forbidden(operator: OperatorProcess) -> float:
    found = re.search(r"^sandkeeper_removals_forbidden (\S+)$", operator.read("/metrics"), re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_nothing_goes_but_what_users_ask_for(
    sandboxes: Sandboxes, operator_factory: OperatorFactory, containers: Containers
) -> None:
    names = ["drifts", "dies", "orphan", "deleted", "asked", "stopped"]
    operator = operator_factory(lease=False).wait_ready()
    assert is_forbidden(operator) == 0
    sandboxes.apply(sandboxes.policy(**FOREVER), sandboxes.policy("idle", **SHORT))
    sandboxes.apply(*(sandboxes.sandbox(name) for name in names))
    ids = {name: sandboxes.wait(name, "Running")["runtime"]["id"] for name in names}
    operator.stop()
    # Its Sandbox goes while nobody looks, finalizer and all.
    sandboxes.kubectl(
        "patch", "sandbox", "orphan", "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
    )
    sandboxes.kubectl("delete", "sandbox", "orphan")

    operator = operator_factory(lease=False, removals="forbidden", docker={"sweepSeconds": 1}).wait_ready()
    assert is_forbidden(operator) == 1
    sandboxes.apply(sandboxes.sandbox("idle", policyRef={"name": "idle"}))
    ids["idle"] = sandboxes.wait("idle", "Running")["runtime"]["id"]
    sandboxes.apply(sandboxes.policy(container={"env": {"A": "b"}}, **FOREVER))
    next(one for one in containers() if one.id == ids["dies"]).kill()

    # What it would do by itself, and does not.
    sandboxes.wait("drifts", "RemovalsForbidden", kind="Drifted")
    sandboxes.wait("idle", "RemovalsForbidden", kind="RemovalWithheld")
    sandboxes.wait("dies", "RemovalsForbidden", kind="RemovalWithheld")
    assert sandboxes.condition("drifts") == sandboxes.condition("idle") == ("True", "Running")
    assert sandboxes.condition("dies")[0] == "False"

    # What users ask for, it does.
    sandboxes.kubectl("delete", "sandbox", "deleted", "--timeout=60s")
    sandboxes.annotate("asked", recreate="please")
    wait_for(lambda: sandboxes.status("asked").get("recreate") == "please", what="it was made anew")
    sandboxes.kubectl("patch", "sandbox", "stopped", "--type=merge", "-p", '{"spec": {"state": "Stopped"}}')
    sandboxes.wait("stopped", "Stopped")

    left = {one.id for one in containers()}
    kept = {ids[name] for name in ("drifts", "dies", "orphan", "idle", "stopped")}
    assert left == kept | {sandboxes.status("asked")["runtime"]["id"]}
    assert ids["asked"] not in left

    operator.stop()
    operator_factory(lease=False, docker={"sweepSeconds": 1}).wait_ready()
    sandboxes.wait("idle", "Idle")
    wait_for(lambda: sandboxes.condition("drifts", "Drifted") == ("", ""), what="it was replaced")
    sandboxes.wait("dies", "Running")
    wait_for(lambda: ids["orphan"] not in {one.id for one in containers()}, what="the orphan is gone")


def test_an_unknown_word_for_it_keeps_the_operator_from_starting(operator_factory: OperatorFactory) -> None:
    operator = operator_factory(removals="sometimes")
    assert operator.wait_dead() != 0
    assert "removals" in operator.log.read_text()
