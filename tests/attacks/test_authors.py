"""Authors who ask for more than they may have.

Whoever writes Sandboxes chooses little, whoever writes policies much; neither is to own the host.
"""

from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException

from api.documents import example
from api.server import Objects, said
from attacks.register import On, attack
from attacks.stage import Stage
from sandkeeper.api.container import ContainerTemplate, SandboxContainer
from sandkeeper.api.crd import SANDBOX
from sandkeeper.config.binds import BLOCKED_PATHS

pytestmark = pytest.mark.cluster

POLICY_ONLY = {
    field.alias or name
    for name, field in ContainerTemplate.model_fields.items()
    if name not in SandboxContainer.model_fields
}


@pytest.fixture(scope="module")
def objects(api_client: ApiClient, crds: None) -> Objects:
    return Objects(api_client)


@attack(
    "a Sandbox whose container section has each of the fields that are for policies: `binds`, `network`, `user`, ...",
    stopped_by="an unknown field: refused where the client asks for strictness, dropped before it is stored elsewhere",
    on=On.ADMISSION,
)
@pytest.mark.parametrize("field", sorted(POLICY_ONLY))
def test_fields_that_are_for_policies(objects: Objects, field: str) -> None:
    value = example("policy-maximal")["spec"]["container"][field]
    spec = {"agentId": "rain", "scope": "session", "container": {"memory": "1g", field: value}}
    with pytest.raises(ApiException) as caught:
        objects.would_create(SANDBOX, spec, field_validation="Strict")
    assert f'unknown field "spec.container.{field}"' in said(caught.value)
    for leniency in ("Warn", "Ignore"):
        stored = objects.would_create(SANDBOX, spec, field_validation=leniency)
        assert stored["spec"]["container"] == {"memory": "1g"}


@attack(
    "a Sandbox with `scope: agent` that brings a container of its own, or a backend",
    stopped_by="refused at apply: whoever shares the runtime would get it too",
    on=On.ADMISSION,
)
@pytest.mark.parametrize("section", [{"container": {"image": "a"}}, {"backend": "docker"}])
@pytest.mark.parametrize("scope", [{}, {"scope": "agent"}, {"scope": "shared"}])
def test_a_container_for_others(objects: Objects, section: dict[str, Any], scope: dict[str, str]) -> None:
    with pytest.raises(ApiException, match="for scope session only"):
        objects.would_create(SANDBOX, {"agentId": "rain", **section, **scope})


@attack(
    "a Sandbox whose `workdir` or `tmpfs` lies where the kernel's files are: `/proc/self/fd/7`, `/sys`, `/dev`, `/`",
    stopped_by="`InvalidConfig`, and nothing is made; in `/dev` only `/dev/shm` can be mounted over",
)
def test_places_of_the_kernel(stage: Stage) -> None:
    policy = stage.name("policy")
    stage.sandboxes.apply(stage.sandboxes.policy(policy, scope="session"))
    sections: list[dict[str, Any]] = [
        {"workdir": "/proc/self/fd/7"},
        {"workdir": "/workspace/../proc/self/cwd"},
        {"workdir": "//proc/1/root"},
        {"workdir": "/dev/shm"},  # noqa: S108 - in the sandbox
        {"tmpfs": ["/proc"]},
        {"tmpfs": ["/proc/../sys/fs/cgroup:rw"]},
        {"tmpfs": ["/dev:exec"]},
        {"tmpfs": ["/"]},
        {"tmpfs": ["/tmp:suid,dev"]},  # noqa: S108
        {"tmpfs": ["/tmp:size=64m,remount"]},  # noqa: S108
    ]
    names = [stage.name("kernel") for _ in sections]
    stage.sandboxes.apply(
        *(
            stage.claim(name, policy, scope="session", container=section)
            for name, section in zip(names, sections, strict=True)
        )
    )
    assert [one.reason for one in stage.refusals(*names)] == ["InvalidConfig"] * len(names)


@attack(
    "a Sandbox whose `tmpfs` hides the agent's skills, or one of them, or `/agent`: to write others in their place",
    stopped_by="`InvalidConfig`, and nothing is made",
)
def test_something_to_write_to_over_skills(stage: Stage) -> None:
    policy = stage.name("policy")
    workspace = {"access": "ro", "agent": stage.agent, "volume": stage.copies}
    stage.sandboxes.apply(stage.sandboxes.policy(policy, scope="session", workspace=workspace))
    names = {
        place: stage.name("hiding")
        for place in ("/workspace/skills", "/workspace/./skills/greet.md", "/agent")
    }
    stage.sandboxes.apply(
        *(
            stage.claim(name, policy, agentId="reed", scope="session", container={"tmpfs": [place]})
            for place, name in names.items()
        )
    )
    assert [one.reason for one in stage.refusals(*names.values())] == ["InvalidConfig"] * len(names)


@attack(
    "a policy that binds something over `/proc`, `/sys`, `/dev`, `/`, `/workspace`, `skills`, `/agent` or below that",
    stopped_by="`BindRefused`, and nothing is made",
)
def test_mounts_over_what_is_not_theirs(stage: Stage) -> None:
    targets = ["/proc", "/proc/self", "/sys/fs/cgroup", "/dev", "/dev/shm", "/", "/x/..", "/x/../proc",  # noqa: S108
               "/workspace", "//workspace/", "/agent", "/agent/skills", "/workspace/./skills",
               "/workspace/skills/greet.md"]  # fmt: skip
    workspace = {"access": "rw", "agent": stage.agent}
    found = stage.refuse(
        {
            target: {
                "workspace": workspace,
                "container": {"binds": [f"{stage.root}/shared:{target}:rw"]},
            }
            for target in targets
        }
    )
    assert {target: one.reason for target, one in found.items()} == dict.fromkeys(targets, "BindRefused")


@attack(
    "a policy that binds each path that is never bound, what lies in it and what contains it, by other spellings, "
    "in capitals, by `..`",
    stopped_by="`BindRefused`, whatever the ceilings say, and nothing is made",
)
def test_paths_that_are_never_bound(stage: Stage) -> None:
    root = stage.root
    sources = [
        *BLOCKED_PATHS,
        "/", "//", "/var", "/var/lib", "/ETC", "/etc/../etc/shadow", "/proc/1/root", "/home", "/home/rain",
        f"{root}/..", f"{root}/../..", f"{root}/shared/../../../etc", f"{root}/.ssh", f"{root}/shared/.AWS/x",
        f"{root}/docker.sock", f"{root}2", f"{root.parent}/elsewhere",
    ]  # fmt: skip
    found = stage.refuse({source: {"container": {"binds": [f"{source}:/mnt"]}} for source in sources})
    assert {source: one.reason for source, one in found.items()} == dict.fromkeys(sources, "BindRefused")


@attack(
    "a policy that asks for root, for capabilities, for no seccomp filter, for a network, or for another container's",
    stopped_by="`CeilingExceeded`: the installer allows none of it unless told to",
)
def test_what_only_the_installer_gives(stage: Stage) -> None:
    wishes: dict[str, dict[str, Any]] = {
        "root": {"user": "0"},
        "root's group": {"user": "1000:0"},
        "root, spelt otherwise": {"user": "00:1"},
        "capabilities": {"capDrop": []},
        "some capabilities": {"capDrop": ["NET_RAW"]},
        "no filter": {"seccompProfile": "Unconfined", "dangerouslyAllowUnconfinedSeccomp": True},
        "no profile": {"apparmorProfile": "unconfined", "dangerouslyAllowUnconfinedApparmor": True},
    }
    if stage.is_docker:
        wishes["the bridge"] = {"network": "bridge"}
        wishes["another's network"] = {
            "network": "container:other",
            "dangerouslyAllowContainerNamespaceJoin": True,
        }
    found = stage.refuse({wish: {"container": section} for wish, section in wishes.items()})
    assert {wish: one.reason for wish, one in found.items()} == dict.fromkeys(wishes, "CeilingExceeded")


@attack(
    "a policy with `scope: shared` whose workspace names `{agentId}`: whoever comes first would choose for all",
    stopped_by="`WorkspaceAmbiguous`, and nothing is made",
)
def test_one_workspace_for_all_that_is_one_agents(stage: Stage) -> None:
    workspaces: list[dict[str, Any]] = [
        {"access": "rw", "agent": stage.agent},
        {"volume": {"hostPath": {"path": f"{stage.root}/{{agentId}}"}}},
    ]
    found = stage.refuse({str(one): {"scope": "shared", "workspace": one} for one in workspaces})
    assert {one.reason for one in found.values()} == {"WorkspaceAmbiguous"}


@attack(
    "an agentId with parts of a path, a template in it, or a newline: `../tio-claude`, `a/b`, `.`, `{agentId}`, ...",
    stopped_by="refused at apply; and by the operator, where admission was passed by (fuzzed)",
    on=On.ADMISSION,
)
@pytest.mark.parametrize(
    "agent_id",
    [
        "../tio-claude",
        "..",
        ".",
        "a/b",
        "/etc",
        ".ssh",
        "-v",
        "a\n",
        "a\0",
        "{agentId}",
        "a b",
        "\u0430gent",
        "",
        "a:b",
    ],
)
def test_an_agent_that_is_called_like_a_path(objects: Objects, agent_id: str) -> None:
    with pytest.raises(ApiException) as caught:
        objects.would_create(SANDBOX, {"agentId": agent_id})
    assert "spec.agentId" in said(caught.value)
