"""``sandkeeper recreate`` against a real API server; the test plays the operator's part."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sandkeeper.cli import cluster as client
from sandkeeper.cli import main
from support.cluster import Cluster
from support.manifests import to_json

pytestmark = pytest.mark.cluster

RECREATE, WIPE, LAST_USED = (f"sandkeeper.dev/{name}" for name in ("recreate", "wipe", "last-used"))


class Household:
    """One namespace with Sandboxes of several agents and sessions."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def make(self, *specs: dict[str, Any]) -> None:
        """Make Sandboxes; each is called by its agent and its session."""
        head = {"apiVersion": "sandkeeper.dev/v1alpha1", "kind": "Sandbox"}
        manifests = [
            {**head, "metadata": {"name": f"{spec['agentId']}-{spec['sessionKey']}"}, "spec": spec}
            for spec in specs
        ]
        self.cluster.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=to_json(*manifests))

    def say(self, name: str, *, reason: str = "Running", **status: Any) -> None:
        condition = {
            "type": "Ready",
            "status": "True" if reason == "Running" else "False",
            "reason": reason,
            "message": "So it is.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = json.dumps({"status": {"conditions": [condition], **status}})
        where = ("-n", self.namespace, "patch", "sbx", name, "--subresource=status", "--type=merge")
        self.cluster.kubectl(*where, "-p", patch)

    def run(self, *arguments: str) -> Result:
        where = ["--kubeconfig", str(self.cluster.kubeconfig), "-n", self.namespace]
        return CliRunner().invoke(main, ["recreate", *where, *arguments])

    def annotations(self, annotation: str) -> dict[str, str]:
        """Which Sandboxes have an annotation, and its value."""
        found = self.cluster.get("-n", self.namespace, "sbx")["items"]
        return {
            each["metadata"]["name"]: each["metadata"]["annotations"][annotation]
            for each in found
            if annotation in each["metadata"].get("annotations", {})
        }


@pytest.fixture
def household(cluster: Cluster, crds: None, namespace: str) -> Household:
    made = Household(cluster, namespace)
    made.make(
        {"agentId": "rain", "sessionKey": "main"},
        {"agentId": "rain", "sessionKey": "chat"},
        {"agentId": "tio", "sessionKey": "main"},
    )
    return made


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["rain-chat"], ["rain-chat"]),
        (["tio-main", "rain-chat", "tio-main"], ["rain-chat", "tio-main"]),
        (["--agent", "rain"], ["rain-chat", "rain-main"]),
        (["--session", "main"], ["rain-main", "tio-main"]),
        (["--agent", "rain", "--session", "main"], ["rain-main"]),
        (["--all"], ["rain-chat", "rain-main", "tio-main"]),
    ],
    ids=" ".join,
)
def test_those_who_are_meant_are_asked_for_and_no_others(
    household: Household, arguments: list[str], asked: list[str]
) -> None:
    said = household.run(*arguments)
    assert said.exit_code == 0, said.output
    assert sorted(household.annotations(RECREATE)) == asked
    assert household.annotations(WIPE) == household.annotations(LAST_USED) == {}
    lines = said.output.splitlines()
    assert len(lines) == len(asked)
    assert all(
        f"{household.namespace}/{name}: asked for a new runtime; now " in said.output for name in asked
    )


def test_each_time_it_is_another_value_and_a_later_one(household: Household) -> None:
    values = []
    for _ in range(3):
        household.run("rain-main")
        values.append(household.annotations(RECREATE)["rain-main"])
    assert len(set(values)) == 3
    assert values == sorted(values)
    assert all(len(value) <= 256 for value in values)


def test_with_wipe_a_fresh_copy_is_asked_for_in_place_of_a_mere_runtime(household: Household) -> None:
    household.say("tio-main", key="agent:tio")
    said = household.run("tio-main", "--wipe")
    assert household.annotations(WIPE).keys() == {"tio-main"}
    assert household.annotations(RECREATE) == {}
    assert said.output == (
        f"{household.namespace}/tio-main: asked for a new runtime with a fresh copy of the workspace; "
        "now Ready=True (Running): So it is.\n"
    )


def test_who_shares_the_workspace_and_did_not_ask_is_named(household: Household) -> None:
    for name in ("rain-main", "rain-chat"):
        household.say(name, key="agent:rain")
    household.say("tio-main", key="agent:tio")
    said = household.run("rain-chat", "tio-main", "--wipe").output
    assert "The workspace of agent:rain is not wiped yet" in said
    assert "did not ask: rain-main." in said
    assert "agent:tio" not in said

    said = household.run("rain-main", "--wipe").output
    assert "not wiped yet" not in said, "the other one asked before"

    values = household.annotations(WIPE)
    for name in ("rain-main", "rain-chat"):
        household.say(name, key="agent:rain", wipe=values[name])
    assert "did not ask: rain-chat." in household.run("rain-main", "--wipe").output, "that was honoured since"
    assert "not wiped yet" not in household.run("--agent", "rain", "--wipe").output
    assert "not wiped yet" not in household.run("rain-main").output


def test_who_has_no_claim_on_the_workspace_need_not_ask(household: Household) -> None:
    household.say("rain-main", key="agent:rain")
    household.say("rain-chat", key="agent:rain", reason="ConfigConflict")
    household.say("tio-main")
    assert "not wiped yet" not in household.run("rain-main", "--wipe").output


def test_where_many_share_it_not_all_are_named(household: Household) -> None:
    household.make(*({"agentId": "flock", "sessionKey": f"s{number:02}"} for number in range(14)))
    for number in range(14):
        household.say(f"flock-s{number:02}", key="agent:flock")
    said = household.run("flock-s13", "--wipe").output
    assert "flock-s09 and 3 more." in said


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ([], "NAME..., --agent ID, --session KEY, or --all"),
        (["rain-main", "--all"], "Say it in one way"),
        (["--agent", "rain", "--all"], "Say it in one way"),
        (["rain-main", "--session", "main"], "Say it in one way"),
    ],
)
def test_a_choice_that_says_nothing_or_too_much_is_refused(
    household: Household, arguments: list[str], fix: str
) -> None:
    said = household.run(*arguments)
    assert said.exit_code == 2
    assert fix in said.output
    assert household.annotations(RECREATE) == {}


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["rain-main", "tio-mian"], "did you mean 'tio-main'?"),
        (["--agent", "drop"], "no Sandbox of agent 'drop'"),
        (["--agent", "drop"], "there are the agents rain, tio."),
        (["--session", "night"], "there are the sessions chat, main."),
        (["--agent", "tio", "--session", "chat"], "no Sandbox of agent 'tio' and session 'chat'"),
        (["--agent", "tio", "--session", "chat"], "there are the sessions main."),
    ],
)
def test_where_nothing_is_meant_nothing_is_done_and_what_there_is_is_told(
    household: Household, arguments: list[str], fix: str
) -> None:
    said = household.run(*arguments)
    assert said.exit_code == 1
    assert fix in said.output
    assert household.annotations(RECREATE) == {}


@pytest.mark.parametrize("arguments", [["--all"], ["--agent", "rain"], ["rain-main"]])
def test_an_empty_namespace_is_probably_the_wrong_one(
    cluster: Cluster, crds: None, namespace: str, arguments: list[str]
) -> None:
    said = Household(cluster, namespace).run(*arguments)
    assert said.exit_code == 1
    assert "name the namespace with -n" in said.output


def test_all_are_found_however_many_pages_they_fill(
    household: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PAGE", 2)
    assert household.run("--all").exit_code == 0
    assert len(household.annotations(RECREATE)) == 3
