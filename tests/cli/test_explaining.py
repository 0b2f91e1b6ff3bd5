"""``sandkeeper explain`` says what the operator does: both on a real cluster."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sandkeeper.cli import main
from support.cluster import Cluster
from support.operator import OperatorFactory, Sandboxes

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


def explain(cluster: Cluster, sandboxes: Sandboxes, name: str, *options: str) -> dict[str, str]:
    """Run the command, and return what it says of each thing in its first column."""
    where = ["--kubeconfig", str(cluster.kubeconfig), "-n", sandboxes.namespace]
    done = CliRunner().invoke(main, ["explain", *where, *options, name])
    assert done.exit_code == 0, done.output
    lines = [line.partition("   ") for line in done.output.splitlines()]
    return {left.strip(): right.strip() for left, _, right in lines if left.strip()}


def test_who_says_each_value_what_runs_and_what_comes_next(
    cluster: Cluster, sandboxes: Sandboxes, operator_factory: OperatorFactory, tmp_path: Path
) -> None:
    operator = operator_factory(ceilings={"memory": "512m"}).wait_ready()
    value = "nobody is to read this"
    policy: dict[str, Any] = {
        "container": {"env": {"DATABASE": value, "API_TOKEN": value}, "setupCommand": f"echo {value}"},
        "agents": [{"id": "rain", "container": {"cpus": 0.5}}],
    }
    sandboxes.apply(sandboxes.policy(**policy), sandboxes.sandbox("rain"))
    status = sandboxes.wait("rain", "Running")

    said = explain(cluster, sandboxes, "rain", "--config", str(operator.config))
    assert said["Policy"] == f"{sandboxes.namespace}/default"
    assert said["Ready=True"].startswith("Running: ")
    assert said["container.cpus: 0.5"] == "agents[rain]"
    assert said[f"container.image: {sandboxes.image}"] == "the policy"
    assert said[f"container.env.DATABASE: ({len(value)} characters)"] == "the policy"
    assert said["container.env.API_TOKEN: (left out: see allowSecretEnv)"] == "the policy"
    assert said["hotWindowSeconds: 300"] == "built-in"
    # What it works out is what the operator did.
    assert said["Wanted, as worked out here"] == said["Runs"] == status["configHash"]
    assert not any(value in text for pair in said.items() for text in pair)
    assert any(line.startswith("Next: Prune at ") for line in said)

    assert said["container.memory: 512m"] == "the operator's ceilings"

    # Not told of the ceilings it does not make up what they would be.
    unknown = explain(cluster, sandboxes, "rain")
    assert unknown["Wanted, as worked out here"].startswith("known with --config only")
    assert unknown["Runs"] == status["configHash"]
    assert unknown["container.cpus: 0.5"] == "agents[rain]"
    assert "container.memory: 512m" not in unknown

    # Told of others, it says that these are not the operator's.
    other = tmp_path / "other.yaml"
    other.write_text("ceilings: {memory: 256m}\n", encoding="utf-8")
    differs = explain(cluster, sandboxes, "rain", "--config", str(other))
    assert differs["Wanted, as worked out here"] != status["configHash"]
    assert any(line.startswith("The two differ: ") for line in differs)


def test_what_has_drifted_says_when_it_is_replaced(
    cluster: Cluster, sandboxes: Sandboxes, operator_factory: OperatorFactory
) -> None:
    operator = operator_factory().wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    before = sandboxes.wait("rain", "Running")
    sandboxes.apply(sandboxes.policy(container={"env": {"COLOUR": "blue"}}))
    sandboxes.wait("rain", "ConfigChanged", kind="Drifted")

    said = explain(cluster, sandboxes, "rain", "--config", str(operator.config))
    assert said["Runs"] == before["configHash"] != said["Wanted, as worked out here"]
    assert said["Wanted, as worked out here"] == said["Wanted, as the operator says"]
    assert said["Drifted=True"].startswith("ConfigChanged: ")
    assert any(line.startswith("Next: Replace at ") for line in said)


def test_what_cannot_be_says_why(
    cluster: Cluster, sandboxes: Sandboxes, operator_factory: OperatorFactory
) -> None:
    operator = operator_factory().wait_ready()
    sandboxes.apply(sandboxes.policy(container={"user": "0"}), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "CeilingExceeded")

    said = explain(cluster, sandboxes, "rain", "--config", str(operator.config))
    assert said["Cannot be"].startswith("CeilingExceeded: ")
    assert said["Runs"] == "nothing"

    sandboxes.apply(sandboxes.sandbox("lost", policyRef={"name": "nowhere"}))
    sandboxes.wait("lost", "PolicyNotFound")
    said = explain(cluster, sandboxes, "lost")
    assert said["Policy"].startswith("nowhere (there is no AgentSandboxPolicy 'nowhere' in the namespace")
    assert "Shared by" not in said
    assert not any(line.startswith("container.") for line in said)
