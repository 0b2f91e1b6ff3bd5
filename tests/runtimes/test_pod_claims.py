"""A claim is made where the policy has a template for it, and is proven ours like the Pod that mounts it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtimes.pod_orders import INSTALLATION, KEY, KEYS, order, pod_of
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import key_from_pod
from sandkeeper.config.pod import ClaimTemplate, ClaimVolume, EmptyDirVolume, HostPathVolume
from sandkeeper.runtimes.pod.claims import claim_body, claim_name, owner_references
from sandkeeper.runtimes.protocol import Owner

OWNERS = (Owner(name="first", uid="1"), Owner(name="second", uid="2"), Owner(name="third", uid="3"))

REFERENCES = [
    {
        "apiVersion": "sandkeeper.dev/v1alpha1",
        "kind": "Sandbox",
        "name": "first",
        "uid": "1",
        "controller": True,
    },
    {"apiVersion": "sandkeeper.dev/v1alpha1", "kind": "Sandbox", "name": "second", "uid": "2"},
    {"apiVersion": "sandkeeper.dev/v1alpha1", "kind": "Sandbox", "name": "third", "uid": "3"},
]

METADATA = {
    "name": "sandkeeper-agent-dev-5rn2m5zp55i6l",
    "namespace": "team",
    "labels": {
        "app.kubernetes.io/managed-by": "sandkeeper",
        "sandkeeper.dev/installation": INSTALLATION,
        "sandkeeper.dev/key-hash": "ec5ba6772fef51e5f3f4818efcb51dc9b3c33359",
    },
    "annotations": {
        "sandkeeper.dev/namespace-uid": "0f6c",
        "sandkeeper.dev/policy": "default",
        "sandkeeper.dev/key": "agent:dev",
    },
}

SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1073741824"}},
}

CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": METADATA, "spec": SPEC}


def body(template: Any, owners: tuple[Owner, ...] = (), **changes: Any) -> dict[str, Any] | None:
    return claim_body(order(owners=owners, workspace=template, **changes), INSTALLATION)


def test_the_least() -> None:
    assert body(ClaimTemplate(size=1 << 30)) == CLAIM


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            ClaimTemplate(size=5),
            {"resources": {"requests": {"storage": "5"}}},
        ),
        (ClaimTemplate(size=1 << 30, storage_class="fast"), {"storageClassName": "fast"}),
        # Not the same as saying nothing, for which the cluster fills in its default class.
        (ClaimTemplate(size=1 << 30, storage_class=""), {"storageClassName": ""}),
        (
            ClaimTemplate(size=1 << 30, access_modes=("ReadWriteMany", "ReadWriteOnce")),
            {"accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
        ),
    ],
)
def test_a_property_of_the_template(template: ClaimTemplate, expected: dict[str, Any]) -> None:
    assert body(template) == CLAIM | {"spec": SPEC | expected}


def test_it_goes_with_its_sandboxes_unless_it_is_to_be_retained() -> None:
    assert body(ClaimTemplate(size=1 << 30), owners=OWNERS) == CLAIM | {
        "metadata": METADATA | {"ownerReferences": REFERENCES}
    }
    assert body(ClaimTemplate(size=1 << 30, retain=True), owners=OWNERS) == CLAIM


@pytest.mark.parametrize(
    "changes",
    [
        {"container_prefix": "other-"},
        {"image": "other:2"},
        {"setup_command": "make"},
        {"workdir": "/srv"},
        {"tmpfs": ("/workspace/cache",)},
    ],
)
def test_it_outlives_a_change_of_what_mounts_it(changes: dict[str, Any]) -> None:
    assert body(ClaimTemplate(size=1 << 30), **changes) == CLAIM


@pytest.mark.parametrize(
    "workspace", [EmptyDirVolume(), EmptyDirVolume(5), ClaimVolume("x"), HostPathVolume("/srv")]
)
def test_other_volumes_need_none(workspace: Any) -> None:
    assert body(workspace) is None


@pytest.mark.parametrize("changes", [{"tmpfs": ("/workspace:size=1g",)}, {"workdir": "/"}])
def test_none_is_made_that_would_not_be_mounted(changes: dict[str, Any]) -> None:
    template = ClaimTemplate(size=1)

    assert body(template, **changes) is None
    volumes = pod_of(order(workspace=template, **changes))["spec"]["volumes"]
    assert all("emptyDir" in volume for volume in volumes)


@given(key=KEYS, owners=st.booleans(), retain=st.booleans())
def test_a_claim_is_the_one_that_its_pod_mounts_and_proves_the_key(
    *, key: RuntimeKey, owners: bool, retain: bool
) -> None:
    wanted = order(key, OWNERS if owners else (), workspace=ClaimTemplate(size=1, retain=retain))
    claim = claim_body(wanted, INSTALLATION)
    pod = pod_of(wanted)

    assert claim is not None
    assert claim["metadata"]["name"] == claim_name(key, INSTALLATION)
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    assert key_from_pod(claim["metadata"], INSTALLATION) == key
    assert key_from_pod(claim["metadata"], "other") is None


def test_the_first_owner_is_the_controller() -> None:
    assert owner_references(OWNERS) == REFERENCES
    assert owner_references(()) == []


def test_each_installation_has_claims_of_its_own() -> None:
    assert claim_name(KEY, INSTALLATION) == "sandkeeper-agent-dev-5rn2m5zp55i6l"
    assert claim_name(KEY, "other") != claim_name(KEY, INSTALLATION)
