"""The demo's manifests are what the API takes, and its places what the ceilings allow."""

from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from demo import household
from demo.belongings import Belongings
from demo.places import MANIFESTS, Places
from sandkeeper.api.base import Spec
from sandkeeper.api.policy import AgentSandboxPolicySpec, Mode
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config import binds
from sandkeeper.config.operator import Ceilings

MODELS: dict[str, type[Spec]] = {"AgentSandboxPolicy": AgentSandboxPolicySpec, "Sandbox": SandboxSpec}


def documents(name: str) -> list[dict[str, Any]]:
    text = Template((MANIFESTS / name).read_text(encoding="utf-8"))
    return list(yaml.safe_load_all(text.substitute(root="/srv/demo", user="1000:1000")))


@pytest.mark.parametrize("name", sorted(path.name for path in MANIFESTS.glob("*.yaml")))
def test_every_manifest_is_valid_and_in_the_household(name: str) -> None:
    for document in documents(name):
        if document["kind"] == "Namespace":
            assert document["metadata"]["name"] == "household"
        else:
            assert document["metadata"]["namespace"] == "household"
            MODELS[document["kind"]].model_validate(document["spec"])


def test_off_is_a_word_and_not_false() -> None:
    policy = AgentSandboxPolicySpec.model_validate(documents("policy.yaml")[0]["spec"])
    assert {agent.id: agent.mode for agent in policy.agents or ()}["test-local"] is Mode.OFF


@pytest.mark.parametrize(
    "home", ["/root/.local/state/testbed", "/home/me/.local/state/testbed", "/var/x/bed"]
)
def test_the_household_lies_where_binds_may_come_from(home: str) -> None:
    root = str(Places.from_environment({"SANDKEEPER_STATE": home, "HOME": "/nowhere"}).household)
    assert not list(binds.check([f"{root}/rain:/workspace"], Ceilings(bind_roots=[root])))


def test_two_demos_have_two_households() -> None:
    roots = {
        Places.from_environment({"SANDKEEPER_STATE": f"/root/{n}", "HOME": "/root"}).household for n in "ab"
    }
    assert len(roots) == 2


def test_what_was_written_in_the_household_stays(tmp_path: Path) -> None:
    household.ensure(tmp_path / "home")
    (tmp_path / "home/rain/MEMORY.md").write_text("changed", encoding="utf-8")
    household.ensure(tmp_path / "home")
    assert (tmp_path / "home/rain/MEMORY.md").read_text(encoding="utf-8") == "changed"


def test_belongings_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    assert "CRDs" not in Belongings(path)
    Belongings(path).add("CRDs")
    Belongings(path).add("test bed")
    assert "CRDs" in Belongings(path)
    assert "test bed" in Belongings(path)
