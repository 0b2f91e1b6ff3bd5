"""Merging: binds concatenated, env and ulimits merged, everything else replaced, sections field by field."""

# ruff: noqa: S108 - the paths lie inside a sandbox

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import container, made_from, operator, pod, pods, policy, resolved, sandbox
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
    SharedMount,
)
from sandkeeper.config.sources import ClaimSource, ConfigMapSource, HostSource

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


@pytest.mark.parametrize("field", sorted(set(PodTemplate.model_fields) - {"mounts"}))
def test_no_field_of_pods_gets_lost(field: str) -> None:
    value: Any = object()

    assert getattr(merge_pods([PodTemplate.model_construct(**{field: value}), pod()]), field) is value


def test_mounts_of_all_levels_are_mounted_and_the_narrowest_has_a_path() -> None:
    shared, own = {"claim": {"name": "shared", "subPath": "a"}}, {"configMap": {"name": "own"}}
    under = policy(
        pod={"mounts": [{"path": "/a", **shared}, {"path": "/b/", **shared, "readOnly": False}]},
        agents=[{"id": "dev", "pod": {"mounts": [{"path": "/x/../a", **own}]}}],
    )

    assert made_from(resolved(under=under, operated=pods())).pod.mounts == (
        SharedMount(path="/a", source=ConfigMapSource("own")),
        SharedMount(path="/b", source=ClaimSource(name="shared", sub_path="a"), read_only=False),
    )


def test_each_field_of_the_workspace_is_replaced_by_itself() -> None:
    under = policy(
        workspace={
            "agent": {"hostPath": {"path": "/srv/agents/{agentId}/"}},
            "volume": {"hostPath": {"path": "/srv/copies/{agentId}/{agentId}"}},
        },
        agents=[
            {"id": "dev", "workspace": {"access": "ro"}},
            {"id": "ops", "workspace": {"access": "rw", "agent": {"hostPath": {"path": "/srv/ops"}}}},
        ],
    )
    operated = operator(ceilings={"bindRoots": ["/srv"]})

    dev = made_from(resolved(under=under, operated=operated))
    ops = made_from(resolved(sandbox(agentId="ops"), under=under, operated=operated))

    assert (dev.access, dev.agent) == ("ro", HostSource("/srv/agents/dev"))
    assert dev.workspace == HostPathVolume("/srv/copies/dev/dev")
    assert (ops.access, ops.agent) == ("rw", HostSource("/srv/ops"))
    assert ops.workspace == DEFAULT_WORKSPACE


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
            "mounts": [{"path": "/data", "claim": {"name": "data"}}],
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
        "mounts": ({"path": "/data", "source": {"name": "data", "sub_path": ""}, "read_only": True},),
        "egress": {"dns": False, "internet": True, "to": ()},
    }


def test_everything_about_containers_is_resolved() -> None:
    under = policy(
        container={
            "image": "example.org/a:1",
            "containerPrefix": "box-",
            "workdir": "/work//.",
            "readOnlyRoot": False,
            "tmpfs": ["/tmp/:size=1m"],
            "network": "lan",
            "user": "1001",
            "capDrop": ["CAP_NET_RAW", "NET_RAW", "ALL"],
            "env": {"LANG": "de"},
            "setupCommand": "true",
            "setupTimeoutSeconds": 7,
            "pidsLimit": 5,
            "memory": "1g",
            "memorySwap": "2g",
            "cpus": 1.5,
            "gpus": "all",
            "ulimits": {"nofile": {"soft": 1, "hard": 2}},
            "seccompProfile": "strict",
            "apparmorProfile": "tight",
            "dns": ["192.0.2.1"],
            "extraHosts": ["db:192.0.2.2"],
            "binds": ["/srv/a:/a"],
            "init": False,
            "imageFallback": True,
        },
        workspace={
            "access": "ro",
            "agent": {"hostPath": {"path": "/srv/agent/"}},
            "volume": {"hostPath": {"path": "/srv/copy"}},
        },
    )
    operated = operator(
        ceilings={
            "bindRoots": ["/srv"],
            "networks": ["lan"],
            "users": ["1001"],
            "gpus": True,
            "apparmorProfiles": ["tight"],
        }
    )

    config = asdict(made_from(resolved(under=under, operated=operated)))

    assert config.pop("pod") == asdict(DEFAULT_POD)
    assert config == {
        "backend": "docker",
        "image": "example.org/a:1",
        "container_prefix": "box-",
        "workdir": "/work",
        "read_only_root": False,
        "tmpfs": ("/tmp:size=1m",),
        "network": "lan",
        "user": "1001:1001",
        "cap_drop": ("NET_RAW", "ALL"),
        "env": {"LANG": "de"},
        "setup_command": "true",
        "setup_timeout_seconds": 7,
        "pids_limit": 5,
        "memory": 2**30,
        "memory_swap": 2**31,
        "milli_cpus": 1500,
        "gpus": "all",
        "ulimits": {"nofile": {"soft": 1, "hard": 2}},
        "seccomp_profile": "strict",
        "apparmor_profile": "tight",
        "dns": ("192.0.2.1",),
        "extra_hosts": ("db:192.0.2.2",),
        "binds": ("/srv/a:/a:ro",),
        "init": False,
        "image_fallback": True,
        "access": "ro",
        "agent": {"path": "/srv/agent"},
        "workspace": {"path": "/srv/copy"},
    }


def test_what_is_for_pods_is_not_resolved_for_containers() -> None:
    config = made_from(resolved(under=policy(pod={"runtimeClassName": "gvisor"})))

    assert (config.pod, config.workspace) == (DEFAULT_POD, DEFAULT_WORKSPACE)
