"""The API server refuses what is wrong, and says what to do; it admits what is right, unchanged."""

from collections.abc import Mapping
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, CustomObjectsApi

from api.documents import EXAMPLES, RESOURCES, example
from api.refusals import CHANGES, REFUSALS, Change, Refusal
from sandkeeper.api.crd import POLICY, SANDBOX, Resource
from sandkeeper.api.names import API_VERSION, GROUP, VERSION

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crds")]

UNPROCESSABLE = 422
BAD_REQUEST = 400


@pytest.fixture(scope="session")
def objects(api_client: ApiClient) -> CustomObjectsApi:
    return CustomObjectsApi(api_client)


def manifest(resource: Resource, spec: Any, *, name: str = "tried") -> dict[str, Any]:
    head = {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": {"name": name}}
    return head if spec is None else {**head, "spec": spec}


def try_to_create(
    objects: CustomObjectsApi, resource: Resource, body: Mapping[str, Any], **options: str
) -> dict[str, Any]:
    """Ask the API server for its opinion, without creating anything."""
    answer: dict[str, Any] = objects.create_namespaced_custom_object(
        GROUP, VERSION, "default", resource.plural, body, dry_run="All", **options
    )
    return answer


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_refused(objects: CustomObjectsApi, refusal: Refusal) -> None:
    with pytest.raises(ApiException) as caught:
        try_to_create(objects, refusal.resource, manifest(refusal.resource, refusal.spec))
    answer = said(caught.value)
    assert caught.value.status == UNPROCESSABLE, answer
    for text in refusal.says:
        assert text in answer


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_changes_refused(objects: CustomObjectsApi, namespace: str, change: Change) -> None:
    made = objects.create_namespaced_custom_object(
        GROUP, VERSION, namespace, SANDBOX.plural, manifest(SANDBOX, change.before)
    )
    with pytest.raises(ApiException) as caught:
        replace(objects, made, change.after)
    answer = said(caught.value)
    assert caught.value.status == UNPROCESSABLE, answer
    for text in change.says:
        assert text in answer


def test_changes_admitted(objects: CustomObjectsApi, namespace: str) -> None:
    made = objects.create_namespaced_custom_object(
        GROUP, VERSION, namespace, SANDBOX.plural, manifest(SANDBOX, {"agentId": "dev"})
    )
    made = replace(objects, made, {"agentId": "dev", "state": "Stopped"})
    made = replace(objects, made, {"agentId": "dev", "scope": "session"})
    made = replace(objects, made, {"agentId": "dev", "scope": "session", "container": {"memory": "1g"}})
    made = replace(objects, made, {"agentId": "dev", "scope": "session", "backend": "pod"})
    assert made["spec"] == {
        "agentId": "dev",
        "scope": "session",
        "backend": "pod",
        "sessionKey": "main",
        "policyRef": {"name": "default"},
        "state": "Running",
    }


def test_every_culprit_among_env_names_is_found_and_named(objects: CustomObjectsApi) -> None:
    spec = {"container": {"env": {"FINE": "1", "not-fine": "2"}}}
    with pytest.raises(ApiException) as caught:
        try_to_create(objects, POLICY, manifest(POLICY, spec))
    assert "env has the name not-fine, but names must begin with" in said(caught.value)


@pytest.mark.parametrize(
    ("resource", "spec", "field"),
    [
        (SANDBOX, {"agentId": "dev", "privileged": True}, "spec.privileged"),
        (
            SANDBOX,
            {"agentId": "dev", "scope": "session", "container": {"network": "bridge"}},
            "spec.container.network",
        ),
        (POLICY, {"container": {"privileged": True}}, "spec.container.privileged"),
        (POLICY, {"agents": [{"id": "dev", "limits": {}}]}, "spec.agents[0].limits"),
    ],
    ids=["sandbox", "what only policies may say", "policy", "agent"],
)
def test_unknown_fields_are_refused_or_pruned(
    objects: CustomObjectsApi, resource: Resource, spec: Mapping[str, Any], field: str
) -> None:
    with pytest.raises(ApiException) as caught:
        try_to_create(objects, resource, manifest(resource, spec), field_validation="Strict")
    assert caught.value.status == BAD_REQUEST
    assert f'unknown field "{field}"' in said(caught.value)

    pruned = try_to_create(objects, resource, manifest(resource, spec), field_validation="Ignore")
    assert field.rpartition(".")[2] not in str(pruned["spec"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_admitted_and_go_through_the_models_unchanged(
    objects: CustomObjectsApi, namespace: str, name: str
) -> None:
    document = example(name)
    resource = RESOURCES[document["kind"]]
    made = objects.create_namespaced_custom_object(
        GROUP, VERSION, namespace, resource.plural, document, field_validation="Strict"
    )
    parsed = resource.spec.model_validate(made["spec"])
    assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == made["spec"]
    if resource is POLICY:
        assert made["spec"] == document["spec"]


def test_a_full_status_is_written_apart_and_goes_through_the_models_unchanged(
    objects: CustomObjectsApi, namespace: str
) -> None:
    document = example("sandbox-maximal")
    made = objects.create_namespaced_custom_object(GROUP, VERSION, namespace, SANDBOX.plural, document)
    assert "status" not in made

    patched = objects.patch_namespaced_custom_object_status(
        GROUP, VERSION, namespace, SANDBOX.plural, "maximal", {"status": document["status"]}
    )
    assert patched["status"] == document["status"]
    assert patched["metadata"]["generation"] == made["metadata"]["generation"]
    assert SANDBOX.status is not None
    parsed = SANDBOX.status.model_validate(patched["status"])
    assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == document["status"]


def test_the_largest_number_of_agents_and_variables_is_admitted(objects: CustomObjectsApi) -> None:
    # Rules cost as they run, too, and the API server has a budget for one object.
    env = {f"A_VARIABLE_WITH_QUITE_A_LONG_NAME_{number:03}": "" for number in range(128)}
    ulimits = {"nofile": {"soft": 1, "hard": 2}, "core": {"soft": 0, "hard": 0}}
    container = {
        "env": env,
        "ulimits": ulimits,
        "network": "none",
        "user": "1000:1000",
        "dns": [f"2001:db8::{number}" for number in range(8)],
        "extraHosts": [f"host-{number}:192.0.2.1" for number in range(64)],
        "memory": "1g",
        "memorySwap": "2g",
    }
    agents = [{"id": f"agent-{number}", "container": container} for number in range(128)]
    spec = {"container": container, "agents": agents}
    assert len(try_to_create(objects, POLICY, manifest(POLICY, spec))["spec"]["agents"]) == 128


def replace(objects: CustomObjectsApi, made: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = made["metadata"]
    answer: dict[str, Any] = objects.replace_namespaced_custom_object(
        GROUP, VERSION, metadata["namespace"], SANDBOX.plural, metadata["name"], {**made, "spec": spec}
    )
    return answer


def said(refusal: ApiException) -> str:
    """The message, without the quotation marks of JSON in the way."""
    body = refusal.body or ""
    return body.replace('\\"', '"')
