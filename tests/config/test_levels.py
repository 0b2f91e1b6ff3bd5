"""Merging: binds concatenated, env and ulimits merged, everything else replaced, sections field by field."""

# ruff: noqa: S108 - the paths lie inside a sandbox

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import container, made_from, pod, pods, policy, resolved, sandbox
from sandkeeper.api.container import ContainerTemplate, Ulimit
from sandkeeper.api.egress import PodEgress
from sandkeeper.api.pod import PodTemplate
from sandkeeper.config.levels import merge_containers, merge_pods
from sandkeeper.config.pod import (
    DEFAULT_POD,
    DEFAULT_WORKSPACE,
    ClaimTemplate,
    ClaimVolume,
    Egress,
    EmptyDirVolume,
    HostPathVolume,
)

NAMES = st.sampled_from(["A", "B", "C"])
CONTAINERS = st.builds(
    ContainerTemplate,
    image=st.none() | st.sampled_from(["x", "y"]),
    env=st.none() | st.dictionaries(NAMES, st.sampled_from(["1", "2"])),
    ulimits=st.none()
    | st.dictionaries(
        st.sampled_from(["nofile", "core"]),
        st.builds(Ulimit, soft=st.just(1), hard=st.sampled_from([2, 3])),
    ),
    binds=st.none() | st.lists(st.sampled_from(["/a:/a", "/b:/b"]), max_size=2),
    tmpfs=st.none() | st.lists(st.sampled_from(["/tmp", "/run"]), max_size=2),
    init=st.none() | st.booleans(),
)


@given(CONTAINERS, CONTAINERS, CONTAINERS)
def test_merging_can_be_done_in_any_grouping(
    a: ContainerTemplate, b: ContainerTemplate, c: ContainerTemplate
) -> None:
    assert merge_containers([merge_containers([a, b]), c]) == merge_containers([a, merge_containers([b, c])])


@given(CONTAINERS)
def test_a_level_that_says_nothing_changes_nothing(a: ContainerTemplate) -> None:
    alone = merge_containers([a])

    assert merge_containers([None, container(), a, container(), None]) == alone
    assert alone.model_dump(exclude_none=True) == a.model_dump(exclude_none=True)


@given(CONTAINERS, CONTAINERS)
def test_what_the_narrower_level_says_is_what_counts(a: ContainerTemplate, b: ContainerTemplate) -> None:
    merged = merge_containers([a, b])

    assert merged.image == (a.image if b.image is None else b.image)
    assert merged.tmpfs == (a.tmpfs if b.tmpfs is None else b.tmpfs)
    assert merged.init == (a.init if b.init is None else b.init)
    assert (merged.env or {}) == {**(a.env or {}), **(b.env or {})}
    assert (merged.ulimits or {}) == {**(a.ulimits or {}), **(b.ulimits or {})}
    assert (merged.binds or []) == [*(a.binds or []), *(b.binds or [])]


@pytest.mark.parametrize("field", sorted(ContainerTemplate.model_fields))
def test_no_field_gets_lost(field: str) -> None:
    # Compared by the schema, so that a field added later is asked for here as well.
    value = object()
    said: dict[str, Any] = {field: {"k": value} if field in {"env", "ulimits"} else [value]}
    one = ContainerTemplate.model_construct(**said)

    assert getattr(merge_containers([container(), one]), field) == getattr(one, field)


def test_an_explicit_false_or_empty_list_replaces() -> None:
    under = policy(container={"init": False, "tmpfs": [], "readOnlyRoot": False, "env": {}})

    config = made_from(resolved(under=under))

    assert (config.init, config.read_only_root, config.tmpfs) == (False, False, ())
    assert config.env == {"LANG": "C.UTF-8"}, "mappings are merged, so an empty one takes nothing away"


def test_more_binds_than_one_level_may_list() -> None:
    binds = [f"/srv/{n}:/mnt/{n}" for n in range(64)]
    more = [f"/srv/{n}:/mnt/{n}" for n in range(64, 128)]

    merged = merge_containers([container(binds=binds), container(binds=more)])

    assert merged.binds == [*binds, *more]


def test_windows_merge_field_by_field() -> None:
    under = policy(
        prune={"idleSeconds": 10, "maxAgeSeconds": 20},
        rollout={"paused": True},
        limits={"maxHoldSeconds": 0},
        agents=[{"id": "dev", "prune": {"idleSeconds": 0, "deleteAfterSeconds": 5}, "rollout": {}}],
    )

    windows = resolved(under=under).windows

    assert [
        length.total_seconds()
        for length in (windows.idle, windows.max_age, windows.delete_after, windows.hot, windows.max_hold)
    ] == [0, 20, 5, 300, 0]
    assert windows.rollout_paused


def test_the_backend_is_the_narrowest_levels() -> None:
    under = policy(backend="pod", agents=[{"id": "dev", "backend": "docker"}])

    assert made_from(resolved(under=under)).backend == "docker"
    problem = resolved(sandbox(scope="shared"), under=under).problem
    assert problem is not None
    assert problem.reason == "BackendUnavailable"
    assert "does not serve pod" in problem.message


PODS = st.builds(
    PodTemplate,
    runtime_class_name=st.none() | st.sampled_from(["x", "y"]),
    labels=st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])),
    image_pull_secrets=st.none() | st.lists(st.sampled_from(["a", "b"]), max_size=2),
    egress=st.none()
    | st.builds(PodEgress, dns=st.none() | st.booleans(), internet=st.none() | st.booleans()),
)


@given(PODS, PODS, PODS)
def test_pods_are_merged_in_any_grouping(a: PodTemplate, b: PodTemplate, c: PodTemplate) -> None:
    assert merge_pods([merge_pods([a, b]), c]) == merge_pods([a, merge_pods([b, c])])


@given(PODS, PODS)
def test_every_field_of_pods_is_replaced_by_itself_and_whole(a: PodTemplate, b: PodTemplate) -> None:
    merged = merge_pods([None, a, pod(), b])

    for name in PodTemplate.model_fields:
        value = getattr(b, name)
        assert getattr(merged, name) == (getattr(a, name) if value is None else value)


@pytest.mark.parametrize("field", sorted(PodTemplate.model_fields))
def test_no_field_of_pods_gets_lost(field: str) -> None:
    value: Any = object()

    assert getattr(merge_pods([PodTemplate.model_construct(**{field: value}), pod()]), field) is value


def test_an_agent_may_take_away_what_the_policy_says_about_pods() -> None:
    under = policy(
        pod={
            "labels": {"a": "b"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "egress": {"dns": True, "internet": True},
            "runtimeClassName": "gvisor",
        },
        agents=[
            {"id": "dev", "pod": {"labels": {}, "tolerations": [], "affinity": {}, "egress": {"dns": True}}}
        ],
    )

    shape = made_from(resolved(under=under, operated=pods(ceilings={"egress": ["dns"]}))).pod

    assert shape.egress == Egress(dns=True)
    assert (shape.labels, shape.tolerations, shape.affinity) == ({}, (), None)
    assert shape.runtime_class_name == "gvisor"


def test_the_workspace_is_the_narrowest_levels() -> None:
    under = policy(
        workspace={"volume": {"template": {"size": "1g"}}},
        agents=[
            {"id": "dev", "workspace": {"volume": {"claim": {"name": "theirs"}}}},
            {"id": "says-nothing", "workspace": {}},
        ],
    )

    def workspace(**fields: Any) -> Any:
        return made_from(resolved(sandbox(**fields), under=under, operated=pods())).workspace

    assert workspace() == ClaimVolume("theirs")
    assert workspace(agentId="says-nothing") == ClaimTemplate(size=2**30)
    assert workspace(scope="shared") == ClaimTemplate(size=2**30)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"emptyDir": {}}, DEFAULT_WORKSPACE),
        ({"emptyDir": {"sizeLimit": "1.5g"}}, EmptyDirVolume(3 * 2**29)),
        ({"claim": {"name": "a"}}, ClaimVolume("a")),
        ({"hostPath": {"path": "/srv//a/."}}, HostPathVolume("/srv/a")),
        (
            {"template": {"size": "2m"}},
            ClaimTemplate(size=2**21, storage_class=None, access_modes=("ReadWriteOnce",), retain=False),
        ),
        (
            {
                "template": {
                    "size": "2m",
                    "storageClassName": "",
                    "accessModes": ["ReadWriteOncePod", "ReadWriteMany", "ReadWriteOncePod"],
                    "retention": "Retain",
                }
            },
            ClaimTemplate(
                size=2**21, storage_class="", access_modes=("ReadWriteMany", "ReadWriteOncePod"), retain=True
            ),
        ),
        ({"template": {"size": "2m", "retention": "Delete"}}, ClaimTemplate(size=2**21)),
    ],
)
def test_volumes_as_they_are_resolved(said: dict[str, Any], expected: Any) -> None:
    under = policy(workspace={"volume": said})

    assert (
        made_from(resolved(under=under, operated=pods(ceilings={"bindRoots": ["/srv"]}))).workspace
        == expected
    )


def test_everything_about_pods_is_resolved() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b", "a"]}]}
    neighbours = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}
    under = policy(
        container={"gpus": "2"},
        pod={
            "runtimeClassName": "gvisor",
            "nodeSelector": {"pool": "a"},
            "affinity": {
                "nodeAffinity": {preferred: [{"weight": 1, "preference": term}]},
                "podAffinity": {preferred: []},
                "podAntiAffinity": {preferred: [{"weight": 1, "podAffinityTerm": neighbours}] * 2},
            },
            "tolerations": [
                {"key": "b", "operator": "Exists", "tolerationSeconds": 0, "effect": "NoExecute"}
            ],
            "priorityClassName": "low",
            "imagePullSecrets": ["b", "a", "b"],
            "imagePullPolicy": "Never",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "ephemeralStorage": "1g",
            "gpuResource": "amd.com/gpu",
            "egress": {"internet": True},
        },
    )
    operated = pods(ceilings={"gpus": True, "gpuResources": ["amd.com/gpu"], "egress": ["internet"]})

    shape = made_from(resolved(under=under, operated=operated)).pod

    assert asdict(shape) == {
        "runtime_class_name": "gvisor",
        "node_selector": {"pool": "a"},
        "affinity": {
            "nodeAffinity": {
                preferred: [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]
                        },
                    }
                ]
            },
            "podAntiAffinity": {preferred: [{"weight": 1, "podAffinityTerm": neighbours}] * 2},
        },
        "tolerations": ({"key": "b", "operator": "Exists", "tolerationSeconds": 0, "effect": "NoExecute"},),
        "priority_class_name": "low",
        "image_pull_secrets": ("a", "b"),
        "image_pull_policy": "Never",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "ephemeral_storage": 2**30,
        "gpu_resource": "amd.com/gpu",
        "egress": {"dns": False, "internet": True, "to": ()},
    }


def test_what_is_for_pods_is_not_resolved_for_containers() -> None:
    config = made_from(resolved(under=policy(pod={"runtimeClassName": "gvisor"})))

    assert (config.pod, config.workspace) == (DEFAULT_POD, DEFAULT_WORKSPACE)
