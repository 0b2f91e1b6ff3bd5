"""The CustomResourceDefinitions as generated: bounded, structural, small, and equal to what is committed."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from api.documents import RESOURCES, example
from api.refusals import CHANGES, REFUSALS
from api.walking import fields, unset_fields
from sandkeeper.api import crd, generated
from sandkeeper.api.crd import POLICY, SANDBOX, Resource
from sandkeeper.api.rules import EXTENSION

COMMITTED = Path(__file__).resolve().parents[2] / "crds"

INT_OR_STRING = "x-kubernetes-int-or-string"

ANNOTATION_LIMIT = 262_144
"""Bytes of all annotations together. `kubectl apply` puts the whole object into one of them."""

both_kinds = pytest.mark.parametrize("resource", [SANDBOX, POLICY], ids=lambda resource: resource.kind)


def schema_of(resource: Resource) -> dict[str, Any]:
    version = crd.definition(resource)["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def own_fields(resource: Resource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for part in ("spec", "status"):
        if part in schema_of(resource)["properties"]:
            yield from fields(schema_of(resource)["properties"][part], part)


@both_kinds
def test_every_string_list_and_map_has_a_bound(resource: Resource) -> None:
    unbounded = [
        path
        for path, field in own_fields(resource)
        if (
            (field.get("type") == "string" and not field.keys() & {"maxLength", "enum", "format"})
            or (field.get("type") == "array" and "maxItems" not in field)
            or ("additionalProperties" in field and "maxProperties" not in field)
        )
    ]
    assert unbounded == []


@both_kinds
def test_every_number_has_a_lower_bound(resource: Resource) -> None:
    numbers = {
        path: field
        for path, field in own_fields(resource)
        if field.get("type") in {"integer", "number"} or INT_OR_STRING in field
    }
    assert numbers
    assert [path for path, field in numbers.items() if "minimum" not in field] == []


@both_kinds
def test_the_schema_is_structural(resource: Resource) -> None:
    known = {
        "description", "type", "format", "default", "enum", "pattern", "minLength", "maxLength", "minimum",
        "maximum", "minItems", "maxItems", "maxProperties", "required", "properties", "additionalProperties",
        "items", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", INT_OR_STRING, EXTENSION,
    }  # fmt: skip
    for path, field in own_fields(resource):
        assert field.keys() <= known, path
        if INT_OR_STRING in field:
            assert "type" not in field, path
        else:
            assert field["type"] in {"object", "array", "string", "integer", "number", "boolean"}, path
        assert not ("properties" in field and "additionalProperties" in field), path


@both_kinds
def test_every_field_is_described(resource: Resource) -> None:
    undescribed = [
        path
        for path, field in own_fields(resource)
        if not path.endswith(("[]", "*")) and not field.get("description")
    ]
    assert undescribed == []


@both_kinds
def test_only_what_no_level_decides_has_a_default(resource: Resource) -> None:
    found = {path: field["default"] for path, field in own_fields(resource) if "default" in field}
    expected = {
        "spec.sessionKey": "main",
        "spec.policyRef": {"name": "default"},
        "spec.policyRef.name": "default",
        "spec.state": "Running",
    }
    assert found == (expected if resource is SANDBOX else {})


def test_lists_of_things_with_names_are_merged_by_them() -> None:
    lists = {
        path: field["x-kubernetes-list-map-keys"]
        for resource in (SANDBOX, POLICY)
        for path, field in own_fields(resource)
        if field.get("x-kubernetes-list-type") == "map"
    }
    assert lists == {"status.conditions": ["type"], "spec.agents": ["id"]}


def test_times_have_the_format_of_times() -> None:
    times = {path for path, field in own_fields(SANDBOX) if field.get("format") == "date-time"}
    assert times == {
        "status.conditions[].lastTransitionTime",
        "status.hold.since",
        "status.lastUsedAt",
        "status.nextTransition.at",
        "status.pruned.at",
        "status.runtime.createdAt",
    }


@both_kinds
def test_patterns_are_anchored_and_mean_the_same_in_python(resource: Resource) -> None:
    for path, field in own_fields(resource):
        if "pattern" in field:
            assert field["pattern"].startswith("^"), path
            assert field["pattern"].endswith("$"), path
            re.compile(field["pattern"])


@both_kinds
def test_every_rule_has_a_message_on_one_line(resource: Resource) -> None:
    rules = [(path, rule) for path, field in own_fields(resource) for rule in field.get(EXTENSION, ())]
    assert rules
    for path, rule in rules:
        assert rule["message"].strip(), path
        assert "\n" not in rule["message"] + rule["rule"], path


@both_kinds
def test_every_rule_is_tried_by_the_tables_of_refusals(resource: Resource) -> None:
    refused = [*(refusal.says for refusal in REFUSALS), *(change.says for change in CHANGES)]
    tried = {text for texts in refused for text in texts if " " in text}
    untried = {
        rule["message"]
        for _, field in own_fields(resource)
        for rule in field.get(EXTENSION, ())
        if not any(text in rule["message"] for text in tried)
    }
    assert untried == set()


@both_kinds
def test_the_file_is_small_enough_for_kubectl_apply(resource: Resource) -> None:
    size = len(json.dumps(crd.definition(resource), separators=(",", ":")))
    assert size < ANNOTATION_LIMIT / 2


def test_the_committed_files_are_the_generated_ones() -> None:
    assert list(generated.differences(crd.files(), inside=COMMITTED)) == []
    assert {path.name for path in COMMITTED.glob("*.yaml")} == set(crd.files())


def test_the_files_say_that_they_are_generated_and_how() -> None:
    for text in crd.files().values():
        assert text.startswith("# Generated")
        assert "python -m sandkeeper.api.crd --write crds" in text


def test_names() -> None:
    names = {resource.kind: crd.definition(resource)["spec"]["names"] for resource in (SANDBOX, POLICY)}
    assert names == {
        "Sandbox": {
            "kind": "Sandbox",
            "listKind": "SandboxList",
            "plural": "sandboxes",
            "singular": "sandbox",
            "shortNames": ["sbx"],
            "categories": ["sandkeeper"],
        },
        "AgentSandboxPolicy": {
            "kind": "AgentSandboxPolicy",
            "listKind": "AgentSandboxPolicyList",
            "plural": "agentsandboxpolicies",
            "singular": "agentsandboxpolicy",
            "shortNames": ["asp"],
            "categories": ["sandkeeper"],
        },
    }


@both_kinds
def test_the_maximal_example_sets_every_field(resource: Resource) -> None:
    document = example("sandbox-maximal" if resource is SANDBOX else "policy-maximal")
    left_out = set(unset_fields(schema_of(RESOURCES[document["kind"]]), document))
    # A volume is one of several; the others have an example of their own.
    others = {f".spec.workspace.volume.{kind}" for kind in ("emptyDir", "claim", "hostPath")}
    others |= {f".spec.workspace.agent.{kind}" for kind in ("configMap", "hostPath")}
    others |= {".spec.pod.mounts[].configMap"}
    others |= {path.replace(".spec", ".spec.agents[]") for path in others}
    assert left_out == (set() if resource is SANDBOX else others)


@pytest.mark.parametrize("field", ["volume", "agent"])
def test_an_example_has_every_kind_of_volume(field: str) -> None:
    spec = example("policy-volumes")["spec"]
    kinds = {kind for level in (spec, *spec["agents"]) for kind in level["workspace"].get(field, ())}
    properties = schema_of(POLICY)["properties"]["spec"]["properties"]["workspace"]["properties"]
    assert kinds == properties[field]["properties"].keys()


def test_checking_shows_a_diff_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> int:
        return generated.main({"a.yaml": "one\n"}, program="some.program", arguments=arguments)

    folder = tmp_path / "made"
    assert run("--write", str(folder)) == 0
    assert run("--check", str(folder)) == 0
    assert not capsys.readouterr().out

    (folder / "a.yaml").write_text("two\n", encoding="utf-8")
    assert run("--check", str(folder)) == 1
    shown = capsys.readouterr()
    assert "-two\n+one\n" in shown.out
    assert f"python -m some.program --write {folder}" in shown.err


def test_a_missing_file_differs(tmp_path: Path) -> None:
    assert "+one\n" in list(generated.differences({"a.yaml": "one\n"}, inside=tmp_path))
