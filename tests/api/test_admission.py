"""The API server refuses what is wrong, and says what to do; it admits what is right, unchanged."""

from collections.abc import Mapping
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException

from api.documents import EXAMPLES, RESOURCES, example
from api.refusals import CHANGES, REFUSALS, Change, Refusal
from api.server import Objects, manifest, said
from sandkeeper.api.crd import POLICY, SANDBOX, Resource

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crds")]

UNPROCESSABLE = 422
BAD_REQUEST = 400


@pytest.fixture(scope="session")
def objects(api_client: ApiClient) -> Objects:
    return Objects(api_client)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_refused(objects: Objects, refusal: Refusal) -> None:
    with pytest.raises(ApiException) as caught:
        objects.would_create(refusal.resource, refusal.spec)
    answer = said(caught.value)
    assert caught.value.status == UNPROCESSABLE, answer
    assert [text for text in refusal.says if text not in answer] == [], answer


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_changes_refused(objects: Objects, namespace: str, change: Change) -> None:
    made = objects.create(SANDBOX, manifest(SANDBOX, change.before), namespace=namespace)
    with pytest.raises(ApiException) as caught:
        objects.replace(SANDBOX, made, spec=change.after)
    answer = said(caught.value)
    assert caught.value.status == UNPROCESSABLE, answer
    assert [text for text in change.says if text not in answer] == [], answer


def test_changes_admitted(objects: Objects, namespace: str) -> None:
    made = objects.create(SANDBOX, manifest(SANDBOX, {"agentId": "dev"}), namespace=namespace)
    for added in (
        {"state": "Stopped"},
        {"scope": "session"},
        {"scope": "session", "container": {"memory": "1g"}},
        {"scope": "session", "backend": "pod"},
    ):
        made = objects.replace(SANDBOX, made, spec={"agentId": "dev", **added})
    assert made["spec"] == {
        "agentId": "dev",
        "scope": "session",
        "backend": "pod",
        "sessionKey": "main",
        "policyRef": {"name": "default"},
        "state": "Running",
    }


def test_a_culprit_among_env_names_is_named(objects: Objects) -> None:
    with pytest.raises(ApiException) as caught:
        objects.would_create(POLICY, {"container": {"env": {"FINE": "1", "not-fine": "2"}}})
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
    objects: Objects, resource: Resource, spec: Mapping[str, Any], field: str
) -> None:
    with pytest.raises(ApiException) as caught:
        objects.would_create(resource, spec, field_validation="Strict")
    assert caught.value.status == BAD_REQUEST
    assert f'unknown field "{field}"' in said(caught.value)

    pruned = objects.would_create(resource, spec, field_validation="Ignore")
    assert field.rpartition(".")[2] not in str(pruned["spec"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_admitted_and_go_through_the_models_unchanged(
    objects: Objects, namespace: str, name: str
) -> None:
    document = example(name)
    resource = RESOURCES[document["kind"]]
    made = objects.create(resource, document, namespace=namespace)
    parsed = resource.spec.model_validate(made["spec"])
    assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == made["spec"]
    if resource is POLICY:
        assert made["spec"] == document["spec"]


def test_a_full_status_is_written_apart_and_goes_through_the_models_unchanged(
    objects: Objects, namespace: str
) -> None:
    document = example("sandbox-maximal")
    made = objects.create(SANDBOX, document, namespace=namespace)
    assert "status" not in made

    patched = objects.patch_status(SANDBOX, made, status=document["status"])
    assert patched["status"] == document["status"]
    assert patched["metadata"]["generation"] == made["metadata"]["generation"]
    assert SANDBOX.status is not None
    parsed = SANDBOX.status.model_validate(patched["status"])
    assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == document["status"]


def test_the_largest_number_of_agents_and_variables_is_admitted(objects: Objects) -> None:
    # Rules cost as they run, too, and the API server has a budget for one object.
    container = {
        "env": {f"A_VARIABLE_WITH_QUITE_A_LONG_NAME_{number:03}": "" for number in range(128)},
        "ulimits": {"nofile": {"soft": 1, "hard": 2}, "core": {"soft": 0, "hard": 0}},
        "network": "none",
        "user": "1000:1000",
        "dns": [f"2001:db8::{number}" for number in range(8)],
        "extraHosts": [f"host-{number}:192.0.2.1" for number in range(64)],
        "memory": "1g",
        "memorySwap": "2g",
    }
    agents = [{"id": f"agent-{number}", "container": container} for number in range(128)]
    admitted = objects.would_create(POLICY, {"container": container, "agents": agents})
    assert len(admitted["spec"]["agents"]) == 128


def test_the_largest_number_of_agents_with_pods_of_their_own_is_admitted(objects: Objects) -> None:
    keys = {
        f"a-domain-with-quite-a-long-name.example/a-name-of-no-less-{number:02}": "x" for number in range(16)
    }
    requirement = {"key": "example.com/pool", "operator": "In", "values": ["sandboxes"]}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": dict(list(keys.items())[:2]), "matchExpressions": [requirement] * 2},
    }
    pod = {
        "nodeSelector": keys,
        "labels": keys,
        "annotations": keys,
        "priorityClassName": "low",
        "gpuResource": "amd.com/gpu",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [requirement] * 8}]
                }
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 2},
        },
        "tolerations": [{"key": "example.com/pool", "operator": "Exists"}] * 16,
        "egress": {"to": [{"cidr": "2001:db8::/32", "ports": [{"port": 1, "endPort": 2}] * 2}] * 32},
    }
    level = {"pod": pod, "workspace": {"volume": {"template": {"size": "10g"}}}}
    agents = [{"id": f"agent-{number}", **level} for number in range(128)]
    admitted = objects.would_create(POLICY, {**level, "agents": agents})
    assert len(admitted["spec"]["agents"]) == 128
