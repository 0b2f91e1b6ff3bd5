"""The demo's manifests are what the API takes, and its places what the ceilings allow."""

from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from demo import household, operator_process
from demo.belongings import Belongings
from demo.places import MANIFESTS, Places
from sandkeeper.api.base import Spec
from sandkeeper.api.conditions import Reason
from sandkeeper.api.policy import AgentSandboxPolicySpec, Backend
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.api.workspace import Access
from sandkeeper.config import binds
from sandkeeper.config.operator import Ceilings, OperatorConfig
from sandkeeper.config.resolution import Resolution
from sandkeeper.config.resolve import resolve
from sandkeeper.config.sources import HostSource

MODELS: dict[str, type[Spec]] = {"AgentSandboxPolicy": AgentSandboxPolicySpec, "Sandbox": SandboxSpec}
PLACES = Places.from_environment({"SANDKEEPER_STATE": "/srv/demo/bed", "HOME": "/nowhere"})


def documents(path: Path) -> list[dict[str, Any]]:
    text = Template(path.read_text(encoding="utf-8"))
    return list(yaml.safe_load_all(text.substitute(root=PLACES.household, user="1000:1000")))


@pytest.mark.parametrize(
    "name", sorted(str(path.relative_to(MANIFESTS)) for path in MANIFESTS.rglob("*.yaml"))
)
def test_every_manifest_is_valid_and_in_the_household(name: str) -> None:
    for document in documents(MANIFESTS / name):
        if document["kind"] == "Namespace":
            assert document["metadata"]["name"] == "household"
        else:
            assert document["metadata"]["namespace"] == "household"
            MODELS[document["kind"]].model_validate(document["spec"])


@pytest.fixture(params=list(Backend))
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.param
    return found


def resolutions(backend: Backend, *names: str) -> dict[str, Resolution]:
    """What the Sandboxes of manifests come down to under the operator of the demo."""
    found = [document for name in names for document in documents(MANIFESTS / name)]
    policies = {
        ("household", each["metadata"]["name"]): AgentSandboxPolicySpec.model_validate(each["spec"])
        for each in found
        if each["kind"] == "AgentSandboxPolicy"
    }
    return {
        each["metadata"]["name"]: resolve(
            namespace="household",
            namespace_uid="0f6c",
            spec=SandboxSpec.model_validate(each["spec"]),
            policies=policies,
            recorded_policy=None,
            operator=OperatorConfig.model_validate(operator_process.settings(PLACES, backend)),
        )
        for each in found
        if each["kind"] == "Sandbox"
    }


def test_everybody_gets_what_the_household_promises(backend: Backend) -> None:
    found = resolutions(backend, "policy.yaml", "sandboxes.yaml", "second-session.yaml")
    assert {name: each.problem for name, each in found.items() if each.problem} == {}
    made = {name: each.config for name, each in found.items() if each.config}
    assert set(made) == {"rain", "tio-claude", "rain-evening"}
    assert {config.backend for config in made.values()} == {backend}
    assert found["rain"].key == found["rain-evening"].key
    assert made["rain"].agent == HostSource(f"{PLACES.household}/rain")
    assert {(config.access, config.binds) for config in made.values()} == {
        (Access.RW, (f"{PLACES.household}/shared:/workspace/shared:rw",))
    }
    # Quoted as it is, off is a word and not false.
    assert found["test-local"].key is None


def test_trespassers_are_refused(backend: Backend) -> None:
    found = resolutions(backend, "trespass.yaml")
    reasons = {name: each.problem and each.problem.reason for name, each in found.items()}
    # Where the link leads, only the machine knows on which it lies.
    assert reasons == {"trespasser-by-dots": Reason.BIND_REFUSED, "trespasser-by-link": None}


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
    for _ in range(2):
        household.ensure(tmp_path / "home")
        for folder in ("rain", "shared"):
            with (tmp_path / "home" / folder / "MEMORY.md").open("a", encoding="utf-8") as memory:
                memory.write("more\n")
    for folder in ("rain", "shared"):
        assert (tmp_path / "home" / folder / "MEMORY.md").read_text(encoding="utf-8") == "more\nmore\n"


def test_belongings_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    assert "CRDs" not in Belongings(path)
    Belongings(path).add("CRDs")
    Belongings(path).add("test bed")
    assert "CRDs" in Belongings(path)
    assert "test bed" in Belongings(path)
