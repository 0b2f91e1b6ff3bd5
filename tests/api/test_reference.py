"""The reference as generated: complete, well-formed, and equal to what is committed."""

import re
from pathlib import Path

import pytest

from api.walking import fields
from sandkeeper.api import crd, generated, reference
from sandkeeper.api.conditions import ConditionType, Phase, Reason
from sandkeeper.api.crd import POLICY, SANDBOX, Resource
from sandkeeper.api.names import Annotation

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "reference"

PAGES = {SANDBOX.kind: "sandbox.md", POLICY.kind: "policy.md"}

both_kinds = pytest.mark.parametrize("resource", [SANDBOX, POLICY], ids=lambda resource: resource.kind)


def page(resource: Resource) -> str:
    return reference.files()[PAGES[resource.kind]]


def test_the_committed_files_are_the_generated_ones() -> None:
    assert list(generated.differences(reference.files(), inside=COMMITTED)) == []


@both_kinds
def test_every_field_is_there(resource: Resource) -> None:
    version = crd.definition(resource)["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    text = page(resource)
    for part in properties.keys() & {"spec", "status"}:
        for path, _ in fields(properties[part]):
            name = path.rpartition(".")[2]
            if name and name != "*" and not name.endswith("[]"):
                assert f"| `{name}`" in text, path


@both_kinds
def test_every_row_has_a_cell_for_every_column(resource: Resource) -> None:
    for line in page(resource).splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) in {3, 6}, line


@both_kinds
def test_every_link_leads_somewhere(resource: Resource) -> None:
    linked = set(re.findall(r"\]\(#(\w+)\)", page(resource)))
    assert linked
    assert linked <= set(re.findall(r'<a id="(\w+)">', page(resource)))


def test_every_rule_is_told() -> None:
    assert "- network must not be host" in page(POLICY)
    assert "- dns must list IP addresses" in page(POLICY)
    assert "- ulimits knows the names core" in page(POLICY)
    assert "- container is for scope session only" in page(SANDBOX)


def test_who_may_set_a_field_is_told() -> None:
    def row(resource: Resource, field: str) -> str:
        return next(line for line in page(resource).splitlines() if line.startswith(f"| `{field}`"))

    assert row(SANDBOX, "agentId").endswith("| author of the Sandbox, once |")
    assert row(SANDBOX, "state").endswith("| author of the Sandbox |")
    assert row(SANDBOX, "phase").endswith("| operator |")
    assert row(POLICY, "network").endswith("| author of the policy |")
    assert row(POLICY, "image").endswith(
        "| author of the policy; author of the Sandbox, with `scope: session` |"
    )


@pytest.mark.parametrize("name", [*Annotation, *ConditionType, *Phase])
def test_the_words_of_a_sandbox_are_there(name: str) -> None:
    assert f"`{name}`" in page(SANDBOX)


@pytest.mark.parametrize("name", [*Annotation, *ConditionType])
def test_annotations_and_conditions_are_explained(name: str) -> None:
    row = next(line for line in page(SANDBOX).splitlines() if line.startswith(f"| `{name}` |"))
    assert row.split("|")[2].strip()


def test_every_reason_is_told_once_with_its_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", reference.files()["reasons.md"], re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(Reason)
    assert all(meaning.endswith((".", "?")) for _, meaning in rows)


def test_reasons_are_grouped_by_what_they_are_said_of() -> None:
    text = reference.files()["reasons.md"]
    groups = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert "`Running`" in groups["Ready is True"]
    assert "`Idle`" in groups["Ready is False: on the way, or at rest"]
    assert "`EngineUnreachable`" in groups["Ready is Unknown"]
    assert "`NewerEpoch`" in groups["Drifted is True"]
    assert "`RollingOut`" in groups["Of a policy"]
