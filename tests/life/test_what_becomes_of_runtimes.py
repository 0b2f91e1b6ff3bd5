"""A real operator lives through everything that may become of a runtime, and its metrics tell so: each change once."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from sandkeeper.telemetry.catalogue import CATALOGUE, Kind
from support.nodes import FakeNodesFactory
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.pods import POD_IMAGE
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine, pytest.mark.timeout(600)]

VALUE = "quetzalcoatlus"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

Samples = dict[str, float]


class Life:
    """An operator, and what its metrics say."""

    def __init__(self, operator: OperatorProcess, sandboxes: Sandboxes) -> None:
        self.operator = operator
        self.sandboxes = sandboxes

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for family in parser.text_string_to_metric_families(self.operator.read("/metrics")):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value

    def churn(self) -> Samples:
        """Count changes, as ``docker created Idle``."""
        return {
            f"{of['backend']} {of['change']} {of['reason']}".strip(): value
            for name, of, value in self.samples()
            if name == "sandkeeper_churn_total"
        }

    def value(self, name: str, **labels: str) -> float:
        return sum(
            value for found, of, value in self.samples() if found == name and labels.items() <= of.items()
        )

    def wait(self, change: str, times: float = 1) -> None:
        """Wait until a change was counted so often."""
        wait_for(
            lambda: self.churn().get(change, 0) >= times,
            what=f"{change} is counted",
            tell=lambda: str(self.churn()),
        )

    def policy(self, **spec: Any) -> None:
        container = {"env": {"COLOUR": spec.pop("colour", "red")}}
        self.sandboxes.apply(self.sandboxes.policy(container=container, **spec))

    def another_second(self) -> None:
        """Let one pass: annotations count in seconds."""
        time.sleep(1.1)


@pytest.fixture
def life(operator_factory: OperatorFactory, sandboxes: Sandboxes) -> Life:
    config = {"backends": ["docker", "pod"], "defaultBackend": "docker", "docker": {"sweepSeconds": 5}}
    return Life(operator_factory(log_format="json", **config).wait_ready(), sandboxes)


def live_on_docker(life: Life, docker_client: docker.DockerClient) -> None:
    sandboxes = life.sandboxes
    life.policy()
    sandboxes.apply(sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    life.wait("docker created")

    sandboxes.apply(sandboxes.sandbox("two", agentId="rain", sessionKey="two"))
    sandboxes.wait("two", "Running")
    life.wait("docker reused")
    life.another_second()
    sandboxes.touch("rain")
    life.wait("docker reused", 2)

    life.policy(colour=VALUE)
    before = sandboxes.wait("rain", "ConfigChanged", kind="Drifted")
    life.wait("docker drifted ConfigChanged")
    life.policy(colour=VALUE, hotWindowSeconds=1)
    life.wait("docker replaced ConfigChanged")
    wait_for(
        lambda: sandboxes.status("rain").get("runtime", {}).get("id") not in {None, before["runtime"]["id"]},
        what="it is replaced",
    )
    sandboxes.wait("two", "Running")

    dead = sandboxes.wait("rain", "Running")["runtime"]["id"]
    docker_client.api.kill(dead)
    life.wait("docker repaired Exited")

    for state in ("Stopped", "Running"):
        for name in ("rain", "two"):
            sandboxes.kubectl(
                "patch", "sandbox", name, "--type=merge", "-p", json.dumps({"spec": {"state": state}})
            )
        for name in ("rain", "two"):
            sandboxes.wait(name, state)
    life.wait("docker started")

    life.policy(colour=VALUE, hotWindowSeconds=1, prune={"idleSeconds": 3})
    life.wait("docker pruned idle")
    sandboxes.wait("rain", "Idle")
    sandboxes.wait("two", "Idle")
    life.policy(colour=VALUE, hotWindowSeconds=1)
    life.another_second()
    sandboxes.touch("rain")
    life.wait("docker created Idle")
    sandboxes.wait("rain", "Running")


def test_each_change_is_counted_once_and_every_metric_has_data(
    life: Life,
    docker_client: docker.DockerClient,
    fake_nodes: FakeNodesFactory,
) -> None:
    live_on_docker(life, docker_client)
    sandboxes = life.sandboxes
    placement = fake_nodes(1, prefix="churn").placement
    sandboxes.apply(
        {
            **sandboxes.policy("pods", backend="pod", pod=placement),
            "spec": {"backend": "pod", "pod": placement, "container": {"image": POD_IMAGE}},
        },
        sandboxes.sandbox("cloud", policyRef={"name": "pods"}),
        sandboxes.policy("typo", container={"image": "not-there:1"}),
        sandboxes.sandbox("typo", policyRef={"name": "typo"}),
        sandboxes.sandbox("lost", policyRef={"name": "nowhere"}),
    )
    sandboxes.wait("cloud", "Running")
    sandboxes.kubectl("delete", "pods", "--all", "--wait=false")
    life.wait("pod repaired Exited")
    sandboxes.wait("typo", "ImageMissing")
    life.wait("none failed PolicyNotFound")
    before = life.churn()
    assert before == {
        "docker created": 1,
        "docker reused": 2,
        "docker drifted ConfigChanged": 1,
        "docker replaced ConfigChanged": 1,
        "docker failed Exited": 1,
        "docker repaired Exited": 1,
        "docker stopped": 1,
        "docker started": 1,
        "docker pruned idle": 1,
        "docker created Idle": 1,
        "docker failed ImageMissing": 1,
        "pod created": 1,
        "pod repaired Exited": 1,
        "none failed PolicyNotFound": 1,
    }
    assert life.value("sandkeeper_hot_window_decisions_total", decision="kept_hot") == 1
    assert life.value("sandkeeper_hot_window_decisions_total", decision="replaced_cold") == 1
    assert life.value("sandkeeper_hot_window_decisions_total", decision="pruned_cold") == 1
    # Created, replaced, repaired, started, and back from the prune; and the two Pods.
    assert life.value("sandkeeper_time_to_ready_seconds_count", backend="docker") == 5
    assert life.value("sandkeeper_time_to_ready_seconds_count", backend="pod") == 2
    assert life.value("sandkeeper_runtimes", backend="docker", phase="Ready", policy="default") == 1
    assert life.value("sandkeeper_runtimes", backend="pod", phase="Ready", policy="pods") == 1
    assert life.value("sandkeeper_runtimes", phase="Failed", policy="other") == 1
    assert life.value("sandkeeper_engine_containers") == 1
    assert life.value("sandkeeper_engine_up") == 1
    assert 0 <= life.value("sandkeeper_watch_age_seconds", resource="sandboxes") < 75

    # A failure that goes on is the same failure, and a look is no change.
    wait_for(
        lambda: life.value("sandkeeper_effects_total", effect="Create", result="ImageMissing") >= 2,
        what="the image that is missing is asked for again",
    )
    assert life.churn() == before

    has_data(life)
    lines_are_whole(life)


def has_data(life: Life) -> None:
    """Every metric of the catalogue has samples with the labels that it says, in both forms of the page."""
    pages: list[tuple[str, Callable[..., Any]]] = [
        (life.operator.read("/metrics"), parser.text_string_to_metric_families),
        (life.operator.read("/metrics", accept=OPENMETRICS), openmetrics.text_string_to_metric_families),
    ]
    for page, parse in pages:
        found: dict[str, set[frozenset[str]]] = {}
        for family in parse(page):
            for sample in family.samples:
                found.setdefault(sample.name, set()).add(frozenset(sample.labels))
        for family in CATALOGUE:
            suffix, more = ("_bucket", {"le"}) if family.kind is Kind.HISTOGRAM else ("", set())
            assert found.get(family.name + suffix) == {frozenset({*family.labels, *more})}, family.name
        assert VALUE not in page
    assert pages[1][0].endswith("# EOF\n")


def lines_are_whole(life: Life) -> None:
    """Each line of the log is an object with its keys, the lines of a pass have one id, and nothing secret is there."""
    text = life.operator.log.read_text()
    assert VALUE not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    drift = next(
        line for line in lines if "differs" in line["message"] or "not what is wanted" in line["message"]
    )
    assert (drift["reason"], drift["diff"], drift["policy"]) == ("ConfigChanged", ["env"], "default")
    assert drift["runs"] != drift["wanted"]
    replacing = [
        line for line in lines if line.get("reason") == "ConfigChanged" and "Removing" in line["message"]
    ]
    assert len(replacing) == 1
    assert replacing[0]["key"].startswith(f"{life.sandboxes.namespace}/default/")
    assert replacing[0]["sandbox"] in {"rain", "two"}
    of_pass = [line for line in lines if line.get("reconcileID") == replacing[0]["reconcileID"]]
    assert {line["key"] for line in of_pass} == {replacing[0]["key"]}
    assert any(line["message"].startswith("Creating") for line in of_pass)
