"""``sandkeeper recreate``: the runtime goes and comes back, once for each wish; wiped when all who share it ask."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from sandkeeper.api.policy import Backend
from sandkeeper.cli import main
from support.operator import OperatorFactory, Sandboxes
from support.pods import serving_pods
from support.waiting import wait_for
from support.worlds import BACKENDS

pytestmark = [pytest.mark.cluster]

RAIN = {"one": {"agentId": "rain"}, "two": {"agentId": "rain", "sessionKey": "other"}}
"""Two sessions of an agent, which share a runtime."""


@dataclass(frozen=True)
class Place:
    """Where runtimes are made."""

    sandboxes: Sandboxes
    start: OperatorFactory
    settings: dict[str, Any]
    runtimes: Callable[[], dict[str, dict[str, str]]]
    """The marks of each runtime that is there, by its id."""
    kubeconfig: str
    after_create: str
    """The step after which a runtime is there and nobody was told."""

    def recreate(self, *arguments: str) -> str:
        """Run the command, and return what it says."""
        where = ["--kubeconfig", self.kubeconfig, "-n", self.sandboxes.namespace]
        said = CliRunner().invoke(main, ["recreate", *where, *arguments])
        assert said.exit_code == 0, said.output
        return said.output

    def asked(self, name: str, annotation: str) -> str:
        """What a Sandbox's annotation says."""
        value: str = self.sandboxes.get(name)["metadata"]["annotations"][f"sandkeeper.dev/{annotation}"]
        return value

    def wait_honoured(self, name: str, annotation: str) -> dict[str, Any]:
        """Wait until it runs and its status says that the annotation was honoured."""
        wait_for(
            lambda: (
                self.sandboxes.condition(name) == ("True", "Running")
                and self.sandboxes.status(name).get(annotation) == self.asked(name, annotation)
            ),
            what=f"{name} has what was asked for by {annotation}",
            tell=lambda: self.sandboxes.kubectl("get", "sandboxes", "-o", "yaml"),
        )
        return self.sandboxes.status(name)


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, cluster: Any, operator_factory: OperatorFactory) -> Place:
    """Each backend in turn."""
    is_pod = request.param is Backend.POD
    sandboxes: Sandboxes = request.getfixturevalue("pod_sandboxes" if is_pod else "sandboxes")
    found = request.getfixturevalue("pods" if is_pod else "containers")

    def marks() -> dict[str, dict[str, str]]:
        if is_pod:
            return {pod["metadata"]["uid"]: pod["metadata"]["annotations"] for pod in found()}
        return {container.id: container.labels for container in found()}

    return Place(
        sandboxes=sandboxes,
        start=operator_factory,
        settings=serving_pods() if is_pod else {},
        runtimes=marks,
        kubeconfig=str(cluster.kubeconfig),
        after_create="after:pod.create" if is_pod else "after:create",
    )


def test_the_runtime_goes_and_comes_back_for_all_who_share_it(place: Place) -> None:
    sandboxes = place.sandboxes
    place.start(**place.settings).wait_ready()
    sandboxes.apply(
        sandboxes.policy(hotWindowSeconds=1),
        *(sandboxes.sandbox(name, **spec) for name, spec in RAIN.items()),
        sandboxes.sandbox("tio"),
    )
    before = {name: sandboxes.wait(name, "Running")["runtime"]["id"] for name in ("one", "two", "tio")}
    assert before["one"] == before["two"]
    place.recreate("one")
    after = place.wait_honoured("one", "recreate")
    assert after["runtime"]["id"] != before["one"]
    assert after.get("recoveries", 0) == 0
    wait_for(
        lambda: sandboxes.status("two").get("runtime", {}).get("id") == after["runtime"]["id"],
        what="the other session has the new one as well",
    )
    assert place.runtimes().keys() == {after["runtime"]["id"], before["tio"]}


def test_a_shared_copy_is_made_afresh_when_all_who_share_it_ask(place: Place) -> None:
    sandboxes = place.sandboxes
    place.start(**place.settings).wait_ready()
    sandboxes.apply(
        sandboxes.policy(hotWindowSeconds=1),
        *(sandboxes.sandbox(name, **spec) for name, spec in RAIN.items()),
    )
    before = [sandboxes.wait(name, "Running")["runtime"]["id"] for name in RAIN]
    assert "did not ask: two." in place.recreate("one", "--wipe")
    waiting = sandboxes.wait("one", "WaitingForSharers", kind="WipePending")
    assert waiting["runtime"]["id"] == before[0]
    (condition,) = [each for each in waiting["conditions"] if each["type"] == "WipePending"]
    assert condition["message"].endswith("these have not: two.")
    assert sandboxes.condition("two", "WipePending") == ("", "")

    assert "did not ask" not in place.recreate("two", "--wipe")
    after = [place.wait_honoured(name, "wipe") for name in RAIN]
    assert after[0]["runtime"]["id"] == after[1]["runtime"]["id"] != before[0]
    assert [sandboxes.condition(name, "WipePending") for name in RAIN] == [("", ""), ("", "")]
    (marks,) = place.runtimes().values()
    assert len(marks["sandkeeper.dev/wiped-for"].split()) == 2


def test_a_fresh_copy_is_not_made_afresh_again_by_a_process_that_only_finds_it(place: Place) -> None:
    sandboxes = place.sandboxes
    sandbox = sandboxes.sandbox("rain")
    sandbox["metadata"]["annotations"] = {"sandkeeper.dev/wipe": "from the start"}
    sandboxes.apply(sandboxes.policy(hotWindowSeconds=1), sandbox)
    place.start(crash=place.after_create, lease=False, **place.settings).wait_dead()
    (made,) = place.runtimes()
    assert "wipe" not in sandboxes.status("rain")
    place.start(lease=False, **place.settings).wait_ready()
    assert place.wait_honoured("rain", "wipe")["runtime"]["id"] == made
