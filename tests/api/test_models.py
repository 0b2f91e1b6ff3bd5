"""The models refuse what the API server refuses, in the same words where a rule speaks, and pass on what is valid."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from api.documents import EXAMPLES, RESOURCES, example
from api.refusals import REFUSALS, Refusal
from sandkeeper.api.conditions import Phase
from sandkeeper.api.policy import AgentSandboxPolicySpec
from sandkeeper.api.sandbox import RuntimeRecord, SandboxSpec, SandboxStatus


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_the_models_refuse(refusal: Refusal) -> None:
    with pytest.raises(ValidationError) as caught:
        refusal.resource.spec.model_validate(refusal.spec)
    if refusal.by_rule:
        assert refusal.says[-1] in str(caught.value)
        assert "rule" in {error["type"] for error in caught.value.errors()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_go_through_the_models_unchanged(name: str) -> None:
    document = example(name)
    resource = RESOURCES[document["kind"]]
    parsed = resource.spec.model_validate(document["spec"])
    assert parsed.model_dump(mode="json", by_alias=True, exclude_unset=True) == document["spec"]
    if "status" in document:
        assert resource.status is not None
        status = resource.status.model_validate(document["status"])
        assert status.model_dump(mode="json", by_alias=True, exclude_none=True) == document["status"]


def test_an_unknown_field_of_a_spec_is_refused() -> None:
    with pytest.raises(ValidationError, match="privileged"):
        AgentSandboxPolicySpec.model_validate({"container": {"privileged": True}})


def test_an_unknown_field_of_a_status_is_passed_over() -> None:
    assert SandboxStatus.model_validate({"someday": 1, "recoveries": 2}).recoveries == 2


def test_a_phase_that_only_a_newer_operator_knows_does_not_cost_the_status() -> None:
    status = SandboxStatus.model_validate({"phase": "Teleporting", "recoveries": 2})
    assert status.phase is Phase.UNKNOWN
    assert status.recoveries == 2
    assert SandboxStatus.model_validate({"phase": "Ready"}).phase is Phase.READY
    assert SandboxStatus().phase is None


def test_times_say_their_zone() -> None:
    fields: dict[str, Any] = {"backend": "docker", "name": "a", "id": "1"}
    with pytest.raises(ValidationError, match="timezone"):
        RuntimeRecord.model_validate({**fields, "createdAt": "2026-03-01T12:00:00"})
    made = RuntimeRecord(**fields, created_at=datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert made.model_dump(mode="json")["created_at"] == "2026-03-01T12:00:00Z"


def test_models_are_made_by_their_python_names_too() -> None:
    spec = SandboxSpec(agent_id="dev")
    assert (spec.session_key, spec.policy_ref.name, spec.scope) == ("main", "default", None)


def test_an_agent_that_is_there_twice_is_named() -> None:
    with pytest.raises(ValidationError, match="id 'a' is there twice"):
        AgentSandboxPolicySpec.model_validate({"agents": [{"id": "a"}, {"id": "b"}, {"id": "a"}]})
