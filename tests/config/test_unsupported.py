"""What a backend cannot do is refused by name, with whoever said it and what to do instead."""

# ruff: noqa: S108 - the paths lie inside a sandbox

from typing import Any

import pytest

from config.examples import made_from, operator, pods, policy, resolved, sandbox
from sandkeeper.api.conditions import Reason

GENEROUS = {
    "bindRoots": ["/srv"],
    "networks": ["bridge"],
    "gpus": True,
    "breakGlass": ["containerNamespaceJoin"],
}
"""What is unsupported is told before what is above the ceilings, so these change nothing."""

ON_PODS: list[tuple[dict[str, Any], str, str]] = [
    ({"pidsLimit": 5}, "container.pidsLimit: 5", "podPidsLimit"),
    ({"memory": "1g", "memorySwap": "2g"}, "container.memorySwap: 2g", "leave memorySwap out"),
    ({"memorySwap": "-1"}, "container.memorySwap: -1", "leave memorySwap out"),
    (
        {"ulimits": {"nofile": {"soft": 1, "hard": 1}, "core": {"soft": 0, "hard": 0}}},
        "container.ulimits: core, nofile",
        "container runtime",
    ),
    ({"network": "bridge"}, "container.network: bridge", "pod.egress"),
    (
        {"network": "container:x", "dangerouslyAllowContainerNamespaceJoin": True},
        "container.network: container:x",
        "pod.egress",
    ),
    ({"gpus": "all"}, "container.gpus: all", "give a count"),
    ({"gpus": "device=0"}, "container.gpus: device=0", "give a count"),
    ({"imageFallback": True}, "container.imageFallback: True", "leave imageFallback out"),
    (
        {"apparmorProfile": "docker-default"},
        "container.apparmorProfile: docker-default",
        "leave apparmorProfile out",
    ),
]
UNNAMED: list[tuple[dict[str, Any], str, str]] = [
    ({"dns": ["192.0.2.1"] * 4}, "container.dns: 4", "at most 3"),
    (
        {"extraHosts": ["a:192.0.2.1", "b:host-gateway"]},
        "container.extraHosts: b:host-gateway",
        "an IP address",
    ),
    ({"extraHosts": ["my_db:192.0.2.1"]}, "container.extraHosts: my_db:192.0.2.1", "name another"),
    ({"extraHosts": ["a..b:192.0.2.1"]}, "container.extraHosts: a..b:192.0.2.1", "name another"),
    *(
        ({"tmpfs": ["/tmp", f"/x:rw,{option}"]}, f"container.tmpfs: /x:rw,{option}", f"no option {option};")
        for option in (
            "size=50%",
            "size=0",
            "noexec",
            "mode=1777",
            "uid=1000",
            "gid=1000",
            "nr_inodes=5",
            "noatime",
        )
    ),
]


@pytest.mark.parametrize(("said", "told", "fix"), [*ON_PODS, *UNNAMED])
@pytest.mark.parametrize("allowed", [{}, GENEROUS], ids=["strict", "generous"])
def test_what_a_pod_cannot_have(said: dict[str, Any], told: str, fix: str, allowed: dict[str, Any]) -> None:
    problem = resolved(under=policy(container=said), operated=pods(ceilings=allowed)).problem

    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert problem.message.startswith(told)
    assert "is not supported by the backend pod: " in problem.message
    assert fix in problem.message.partition("backend pod: ")[2]
    assert problem.message.count("is not supported") == 1


@pytest.mark.parametrize(("said", "told", "fix"), [*ON_PODS, *UNNAMED])
def test_a_container_can(said: dict[str, Any], told: str, fix: str) -> None:
    made_from(resolved(under=policy(container=said), operated=operator(ceilings=GENEROUS)))


@pytest.mark.parametrize(("said", "told", "fix"), ON_PODS)
def test_who_said_it_is_told(said: dict[str, Any], told: str, fix: str) -> None:
    under = policy(agents=[{"id": "dev", "container": said}])

    for spec, setters in ((sandbox(), "agents[dev]"), (sandbox(agentId="other"), None)):
        problem = resolved(spec, under=under, operated=pods()).problem
        assert (problem is None) is (setters is None)
        if problem is not None:
            assert f"{told}, set by {setters}, is" in problem.message


def test_a_limit_on_processes_that_only_the_limits_set() -> None:
    under = policy(limits={"pidsLimit": 100})

    problem = resolved(under=under, operated=pods()).problem

    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert problem.message.startswith("limits.pidsLimit: 100 is not supported by the backend pod: ")
    assert "container.pidsLimit" not in problem.message


def test_a_limit_on_processes_and_a_value_are_both_told() -> None:
    under = policy(limits={"pidsLimit": 100})
    spec = sandbox(scope="session", container={"pidsLimit": 200})

    problem = resolved(spec, under=under, operated=pods()).problem

    assert problem is not None
    assert "limits.pidsLimit: 100 is" in problem.message
    assert "container.pidsLimit: 200, set by the Sandbox, is" in problem.message


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"network": "none", "ulimits": {}, "binds": [], "imageFallback": False, "dns": [], "extraHosts": []},
        {"gpus": "2"},
        {"user": "1000"},
        {"memory": "1g", "cpus": 1},
        {"dns": ["192.0.2.1", "192.0.2.2", "192.0.2.3"]},
        {"extraHosts": ["a:192.0.2.1", "DB-1.example:2001:db8::1"]},
        {"tmpfs": ["/tmp:rw,exec,nosuid,nodev,size=64m", "/run:ro", "/x:size=1048576", "/y:size=1G"]},
        {"init": False, "readOnlyRoot": False, "capDrop": ["ALL"]},
        {"seccompProfile": "ours.json", "containerPrefix": "x-"},
    ],
)
def test_what_a_pod_can_have(said: dict[str, Any]) -> None:
    made_from(resolved(under=policy(container=said), operated=pods(ceilings=GENEROUS)))


def test_whose_a_directory_is_a_pod_cannot_know_beforehand() -> None:
    under = policy(container={"user": "auto"}, workspace=AGENTS_OWN)

    problem = resolved(under=under, operated=pods(ceilings=GENEROUS)).problem

    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert problem.message.startswith("container.user: auto, set by the policy, is not supported")
    made_from(resolved(under=under, operated=operator(ceilings=GENEROUS)))


@pytest.mark.parametrize(
    "workspace",
    [{}, {"volume": {"emptyDir": {}}}],
)
def test_whose_a_directory_is_nobody_knows_where_there_is_none(workspace: dict[str, Any]) -> None:
    under = policy(container={"user": "auto"}, workspace=workspace)

    problem = resolved(under=under, operated=operator(ceilings=GENEROUS)).problem

    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert problem.message.startswith("container.user: auto, set by the policy, is whoever owns")


AGENTS_OWN = {"access": "rw", "agent": {"hostPath": {"path": "/srv/agents/{agentId}"}}}


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ({"claim": {"name": "agents"}}, "workspace.agent.claim"),
        ({"configMap": {"name": "souls"}}, "workspace.agent.configMap"),
    ],
)
def test_what_an_agents_workspace_cannot_be_for_a_container(agent: dict[str, Any], told: str) -> None:
    root = {"hostPath": {"path": "/srv/sandboxes"}}
    under = policy(workspace={"agent": agent, "volume": root})

    problem = resolved(under=under, operated=operator(ceilings=GENEROUS)).problem

    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert problem.message.startswith(f"{told}, set by the policy, is not supported by the backend docker: ")
    made_from(resolved(under=under, operated=pods(ceilings=GENEROUS)))


@pytest.mark.parametrize("access", ["none", "ro"])
@pytest.mark.parametrize("volume", [{}, {"volume": {"emptyDir": {}}}])
def test_a_copy_for_a_container_is_made_on_the_host(access: str, volume: dict[str, Any]) -> None:
    under = policy(workspace={**AGENTS_OWN, "access": access, **volume})

    problem = resolved(under=under, operated=operator(ceilings=GENEROUS)).problem

    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert "workspace.volume.hostPath" in problem.message
    made_from(resolved(under=under, operated=pods(ceilings=GENEROUS)))


@pytest.mark.parametrize(
    ("volume", "told"),
    [
        ({"claim": {"name": "a"}}, "workspace.volume.claim"),
        ({"template": {"size": "1g"}}, "workspace.volume.template"),
        ({"emptyDir": {"sizeLimit": "1g"}}, "workspace.volume.emptyDir.sizeLimit"),
    ],
)
def test_what_a_container_cannot_have(volume: dict[str, Any], told: str) -> None:
    under = policy(workspace={"volume": volume})
    anew = policy(
        workspace={"volume": volume}, agents=[{"id": "dev", "workspace": {"volume": {"emptyDir": {}}}}]
    )
    generous = operator(ceilings=GENEROUS)

    problem = resolved(under=under, operated=generous).problem

    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert problem.message.startswith(f"{told}, set by the policy, is not supported by the backend docker: ")
    made_from(resolved(under=under, operated=pods(ceilings=GENEROUS)))
    made_from(resolved(under=anew, operated=generous))


def test_one_policy_may_serve_agents_of_both_backends() -> None:
    under = policy(
        backend="pod",
        pod={"runtimeClassName": "gvisor", "egress": {"dns": True}},
        workspace={"volume": {"emptyDir": {}}},
        agents=[{"id": "dev", "backend": "docker", "container": {"pidsLimit": 5}}],
    )
    operated = pods(ceilings={"egress": ["dns"]})

    assert made_from(resolved(under=under, operated=operated)).backend == "docker"
    assert made_from(resolved(sandbox(agentId="other"), under=under, operated=operated)).backend == "pod"
