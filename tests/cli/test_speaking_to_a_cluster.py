"""get, touch and hold against a real API server; the test plays the operator's part."""

import json
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sandkeeper.cli import main
from support.cluster import Cluster
from support.manifests import to_json

pytestmark = pytest.mark.cluster


class Home:
    """One namespace with Sandboxes."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def run(self, *arguments: str) -> Result:
        where = ["--kubeconfig", str(self.cluster.kubeconfig), "-n", self.namespace]
        return CliRunner().invoke(main, [arguments[0], *where, *arguments[1:]])

    def make(self, name: str) -> None:
        manifest = {
            "apiVersion": "sandkeeper.dev/v1alpha1",
            "kind": "Sandbox",
            "metadata": {"name": name},
            "spec": {"agentId": name},
        }
        self.cluster.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=to_json(manifest))

    def say(self, name: str, *, ready: str, reason: str, **status: Any) -> None:
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": reason,
            "message": "So it is.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = json.dumps({"status": {"conditions": [condition], **status}})
        self.cluster.kubectl(
            *("-n", self.namespace, "patch", "sbx", name, "--subresource=status", "--type=merge", "-p", patch)
        )

    def annotations(self, name: str) -> dict[str, str]:
        found = self.cluster.get("-n", self.namespace, "sbx", name)
        annotations: dict[str, str] = found["metadata"].get("annotations", {})
        return annotations


@pytest.fixture
def home(cluster: Cluster, crds: None, namespace: str) -> Home:
    made = Home(cluster, namespace)
    made.make("rain")
    return made


def test_get_shows_the_columns_of_kubectl_and_the_reason(home: Home) -> None:
    home.say("rain", ready="False", reason="Idle", phase="Pruned")
    header, row = home.run("get").output.splitlines()
    theirs = home.cluster.kubectl("-n", home.namespace, "get", "sbx").splitlines()[0]
    assert header.split() == [*theirs.split(), "REASON"]
    assert row.split()[:4] == ["rain", "rain", "Pruned", "False"]
    assert row.split()[-1] == "Idle"


def test_get_one_of_several(home: Home) -> None:
    home.make("tio")
    assert len(home.run("get").output.splitlines()) == 3
    assert home.run("get", "tio").output.splitlines()[1].startswith("tio ")


def test_what_looks_like_a_number_elsewhere_is_quoted(home: Home) -> None:
    home.say("rain", ready="True", reason="Running", configHash="1e234567", desiredConfigHash="0o17")
    written = home.run("get", "rain", "-o", "yaml").output
    assert "configHash: '1e234567'" in written
    assert "desiredConfigHash: '0o17'" in written
    # kubectl reads back what it was given.
    home.cluster.kubectl("-n", home.namespace, "replace", "--dry-run=server", "-f", "-", stdin=written)
    assert yaml.safe_load(written)["status"]["configHash"] == "1e234567"


def test_get_everywhere_names_the_namespace(home: Home) -> None:
    lines = home.run("get", "-A").output.splitlines()
    assert lines[0].startswith("NAMESPACE ")
    assert any(line.split()[:2] == [home.namespace, "rain"] for line in lines)


def test_get_prints_objects_whole(home: Home) -> None:
    one = json.loads(home.run("get", "rain", "-o", "json").output)
    assert one["spec"]["agentId"] == "rain"
    assert "managedFields" not in one["metadata"]
    several = yaml.safe_load(home.run("get", "-o", "yaml").output)
    assert [each["metadata"]["name"] for each in several["items"]] == ["rain"]


def test_get_where_there_is_nothing(home: Home) -> None:
    home.cluster.kubectl("-n", home.namespace, "delete", "sbx", "rain")
    said = home.run("get")
    assert said.exit_code == 0
    assert f"No Sandboxes in namespace '{home.namespace}'." in said.output


def test_a_wrong_name_gets_the_right_one_offered(home: Home) -> None:
    said = home.run("touch", "rian")
    assert said.exit_code == 1
    assert "did you mean 'rain'?" in said.output


def test_a_name_like_none_gets_all_of_them_listed(home: Home) -> None:
    home.make("tio")
    assert "there are: rain, tio." in home.run("get", "somebody-else").output


def test_touch_records_the_present_time(home: Home) -> None:
    before = datetime.now(UTC)
    said = home.run("touch", "rain")
    assert said.exit_code == 0
    value = home.annotations("rain")["sandkeeper.dev/last-used"]
    assert value.endswith("Z")
    assert len(value) == len("2026-01-02T03:04:05.678901Z")
    assert before <= datetime.fromisoformat(value) <= datetime.now(UTC)


def test_touch_says_whether_it_is_ready(home: Home) -> None:
    assert "no operator has looked at it yet" in home.run("touch", "rain").output
    home.say("rain", ready="True", reason="Running")
    said = home.run("touch", "rain")
    assert said.output == f"{home.namespace}/rain: Ready=True (Running): So it is.\n"


def test_touch_waits_until_it_is_ready(home: Home) -> None:
    home.say("rain", ready="False", reason="Idle")

    def come_back() -> None:
        time.sleep(1)
        home.say("rain", ready="False", reason="Creating")
        home.say("rain", ready="True", reason="Running")

    coming = threading.Thread(target=come_back)
    coming.start()
    said = home.run("touch", "rain", "--wait", "30")
    coming.join()
    assert said.exit_code == 0
    assert "Ready=True" in said.output


def test_touch_that_waits_in_vain_says_why(home: Home) -> None:
    home.say("rain", ready="False", reason="ImageMissing")
    said = home.run("touch", "rain", "--wait", "1")
    assert said.exit_code == 1
    assert "Not ready after 1 s: Ready=False (ImageMissing): So it is." in said.output


def test_hold_and_release(home: Home) -> None:
    before = datetime.now(UTC)
    assert "held until" in home.run("hold", "rain", "--for", "600").output
    annotations = home.annotations("rain")
    until = datetime.fromisoformat(annotations["sandkeeper.dev/hold-until"])
    assert 600 <= (until - before).total_seconds() < 660
    first_use = annotations["sandkeeper.dev/last-used"]

    assert "not held" in home.run("hold", "rain", "--release").output
    annotations = home.annotations("rain")
    assert "sandkeeper.dev/hold-until" not in annotations
    assert annotations["sandkeeper.dev/last-used"] > first_use


def test_hold_until_a_time_elsewhere_is_written_in_utc(home: Home) -> None:
    home.run("hold", "rain", "--until", "2100-01-01T02:00:00+02:00")
    assert home.annotations("rain")["sandkeeper.dev/hold-until"] == "2100-01-01T00:00:00.000000Z"


def test_exec_without_a_sandbox_says_so(home: Home) -> None:
    home.say("rain", ready="True", reason="NotSandboxed", phase="NotSandboxed")
    said = home.run("exec", "rain", "--", "true")
    assert said.exit_code == 125
    assert "has no runtime" in said.output
