"""What admission cannot see: fields that do not go together."""

# ruff: noqa: S108 - the paths lie inside a sandbox

from typing import Any

import pytest

from config.examples import container, made_from, operator, pod, pods, policy, resolved, sandbox, workspace
from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate, Ulimit
from sandkeeper.api.policy import Limits
from sandkeeper.api.workspace import Workspace
from sandkeeper.config.consistency import check, check_pod
from sandkeeper.config.tmpfs import normalise_tmpfs, parse_tmpfs


def problems(*, limits: Limits | None = None, **fields: Any) -> list[str]:
    """Problems of a section that may have passed admission by, in the spelling of Python."""
    found = list(check(ContainerTemplate.model_construct(**fields), Workspace(), limits))
    assert {problem.reason for problem in found} <= {Reason.INVALID_CONFIG}
    return [problem.message for problem in found]


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"memory": "5m"}, "container.memory: 5m is below 6m"),
    ({"memory": "6291455"}, "container.memory"),
    ({"memory": "8388608t"}, "container.memory: '8388608t' is more than an engine can count"),
    ({"memory": "much"}, "container.memory"),
    ({"memory_swap": "1g"}, "container.memorySwap is memory and swap together: it needs container.memory"),
    ({"memory": "1g", "memory_swap": "1023m"}, "container.memorySwap: 1023m"),
    ({"memory": "1g", "memory_swap": "-2"}, "container.memorySwap"),
    ({"workdir": "/a/../b"}, "container.workdir"),
    ({"workdir": "workspace"}, "container.workdir"),
    ({"workdir": "/proc/self/fd/8"}, "container.workdir"),
    ({"workdir": "//sys"}, "container.workdir"),
    ({"workdir": "/a\0"}, "container.workdir"),
    ({"tmpfs": ["/"]}, "container.tmpfs"),
    ({"tmpfs": ["/proc"]}, "container.tmpfs"),
    ({"tmpfs": ["/x/../dev"]}, "container.tmpfs"),
    ({"tmpfs": ["/tmp:dev"]}, "container.tmpfs: '/tmp:dev' has an option that is not allowed: dev"),
    ({"tmpfs": ["/tmp:rw,suid"]}, "container.tmpfs"),
    ({"tmpfs": ["/tmp:size=lots"]}, "container.tmpfs"),
    ({"tmpfs": ["/tmp:bind"]}, "container.tmpfs"),
    ({"tmpfs": ["tmp"]}, "container.tmpfs"),
    (
        {"tmpfs": ["/x/:size=1m"], "binds": ["/srv/a://x:ro"]},
        "container.binds and container.tmpfs both have /x",
    ),
    ({"user": "2147483648"}, "container.user"),
    ({"user": "1:4294967296"}, "container.user"),
    ({"user": "root"}, "container.user"),
    ({"user": "1:"}, "container.user"),
    ({"user": "1:2:3"}, "container.user"),
    ({"user": "٣"}, "container.user"),
    ({"cap_drop": ["NETRAW"]}, "container.capDrop: 'NETRAW' is no capability"),
    ({"cap_drop": ["CAP_ALL"]}, "container.capDrop"),
    (
        {"ulimits": {"nofile": Ulimit.model_construct(soft=2, hard=1)}},
        "container.ulimits.nofile: soft is above hard",
    ),
    (
        {"ulimits": {"nofile": Ulimit.model_construct(soft=-1, hard=1)}},
        "container.ulimits.nofile: soft is above hard",
    ),
    ({"ulimits": {"files": Ulimit(soft=1, hard=1)}}, "container.ulimits: 'files' is none of"),
    ({"dns": ["1.2.3"]}, "container.dns: '1.2.3' is not an IP address"),
    ({"dns": ["256.0.0.1"]}, "container.dns"),
    ({"dns": ["fe80::1%eth0"]}, "container.dns"),
    ({"extra_hosts": ["a:b"]}, "container.extraHosts: 'a:b'"),
    ({"extra_hosts": ["a:1.2.3.4.5"]}, "container.extraHosts"),
    ({"extra_hosts": ["a"]}, "container.extraHosts"),
    ({"env": {"A": "\0"}}, "container.env.A"),
]


@pytest.mark.parametrize(("fields", "message"), INVALID)
def test_what_no_engine_could_make(fields: dict[str, Any], message: str) -> None:
    (found,) = problems(**fields)

    assert found.startswith(message)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"memory": "6m"},
        {"memory": "1g", "memory_swap": "1g"},
        {"memory": "1g", "memory_swap": "-1"},
        {"memory_swap": "-1"},
        {"workdir": "/a..b/c"},
        {"workdir": "/"},
        {"tmpfs": ["/tmp:rw,noexec,size=64m,mode=1777,uid=1000,gid=1000", "/dev/shm:size=1g", "/x:size=50%"]},
        {"tmpfs": ["/x"], "binds": ["/srv/a:/x/y", "/srv/a:/xy"]},
        {"user": "auto"},
        {"user": "2147483647:0"},
        {"cap_drop": ["ALL"]},
        {"cap_drop": ["CAP_NET_RAW", "SYS_ADMIN"]},
        {"ulimits": {"nofile": Ulimit(soft=1, hard=-1), "core": Ulimit(soft=-1, hard=-1)}},
        {"dns": ["192.0.2.53", "2001:db8::53"]},
        {"extra_hosts": ["a:192.0.2.1", "b:2001:db8::1", "c:host-gateway"]},
    ],
)
def test_what_an_engine_can_make(fields: dict[str, Any]) -> None:
    assert problems(**fields) == []


def test_a_limit_that_cannot_be_read() -> None:
    (message,) = problems(limits=Limits(memory="8388608t"), memory="1g")

    assert message.startswith("limits.memory: ")


def test_a_sandbox_above_the_policys_swap() -> None:
    # Each is right by itself, so no admission of one object could tell.
    under = policy(container={"memory": "1g", "memorySwap": "2g"})
    spec = sandbox(scope="session", container={"memory": "3g"})

    problem = resolved(spec, under=under).problem

    assert problem is not None
    assert problem.reason is Reason.INVALID_CONFIG
    assert "container.memorySwap: 2g" in problem.message


def test_a_policys_bind_at_a_sandboxs_tmpfs() -> None:
    under = policy(container={"binds": ["/srv/a:/cache"]})
    spec = sandbox(scope="session", container={"tmpfs": ["/tmp", "/cache/"]})

    problem = resolved(spec, under=under, operated=operator(ceilings={"bindRoots": ["/srv"]})).problem

    assert problem is not None
    assert problem.reason is Reason.INVALID_CONFIG


def test_values_come_out_in_one_spelling() -> None:
    under = policy(
        container={
            "workdir": "/work//x/.",
            "tmpfs": ["/tmp/", "/run:size=1m", "/tmp:size=2m"],
            "user": "01000:0100",
            "capDrop": ["ALL", "CAP_NET_RAW", "NET_RAW"],
            "seccompProfile": "Unconfined",
            "dangerouslyAllowUnconfinedSeccomp": True,
            "memory": "0.5g",
            "memorySwap": "-1",
            "cpus": 1.5,
        }
    )

    config = made_from(
        resolved(under=under, operated=operator(ceilings={"breakGlass": ["unconfinedSeccomp"]}))
    )

    assert config.workdir == "/work/x"
    assert config.tmpfs == ("/run:size=1m", "/tmp:size=2m")
    assert config.user == "1000:100"
    assert config.cap_drop == ("ALL", "NET_RAW")
    assert config.seccomp_profile == "unconfined"
    assert (config.memory, config.memory_swap, config.milli_cpus) == (512 * 1024**2, -1, 1500)


def test_temporary_file_systems_in_one_spelling() -> None:
    assert str(parse_tmpfs("//tmp/")) == "/tmp"
    assert str(parse_tmpfs("/tmp:ro,size=1m")) == "/tmp:ro,size=1m"
    assert normalise_tmpfs(["/a", "/b", "/a/:ro"]) == ("/b", "/a:ro")


def of_a_pod(*, workdir: str = "/workspace", tmpfs: tuple[str, ...] = ("/tmp",), **said: Any) -> list[str]:
    """Problems of a Pod's sections."""
    sections = container(workdir=workdir, tmpfs=tmpfs), workspace(**said.get("workspace", {}))
    found = [*check(*sections, None), *check_pod(sections[0], pod(**said.get("pod", {})), sections[1])]
    assert {problem.reason for problem in found} <= {Reason.INVALID_CONFIG}
    return [problem.message for problem in found]


CLAIM = {"volume": {"claim": {"name": "a"}}}
AGENTS = {"agent": {"hostPath": {"path": "/srv/a"}}}


@pytest.mark.parametrize("size", ["1048575", "0.5", "1k", "8388608t"])
@pytest.mark.parametrize(
    ("said", "field"),
    [
        (lambda size: {"pod": {"ephemeralStorage": size}}, "pod.ephemeralStorage"),
        (
            lambda size: {"workspace": {"volume": {"emptyDir": {"sizeLimit": size}}}},
            "workspace.volume.emptyDir.sizeLimit",
        ),
        (
            lambda size: {"workspace": {"volume": {"template": {"size": size}}}},
            "workspace.volume.template.size",
        ),
    ],
)
def test_sizes_of_disks_that_nobody_means(size: str, said: Any, field: str) -> None:
    (message,) = of_a_pod(**said(size))

    assert message.startswith(f"{field}: ")
    assert size in message
    assert of_a_pod(**said("1m")) == []


def test_every_size_that_nobody_means_is_told() -> None:
    found = of_a_pod(
        pod={"ephemeralStorage": "8388608t"}, workspace={"volume": {"emptyDir": {"sizeLimit": "1k"}}}
    )

    assert [message.partition(":")[0] for message in found] == [
        "pod.ephemeralStorage",
        "workspace.volume.emptyDir.sizeLimit",
    ]


@pytest.mark.parametrize("workspace", [CLAIM, AGENTS])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workdir": "/"}, "workspace is mounted at container.workdir"),
        ({"workdir": "//"}, "workspace is mounted at container.workdir"),
        ({"workdir": "/tmp/"}, "container.tmpfs and workspace are both at /tmp"),
        ({"workdir": "/a", "tmpfs": ("/b", "/a/.:size=1m")}, "container.tmpfs and workspace are both at /a"),
    ],
)
def test_a_workspace_without_a_place(fields: dict[str, Any], workspace: dict[str, Any], message: str) -> None:
    (found,) = of_a_pod(**fields, workspace=workspace)

    assert found.startswith(message)
    assert of_a_pod(**fields) == [], "nobody asked for one"


@pytest.mark.parametrize("workdir", ["/tmp/a", "/tmpx", "/workspace"])
def test_a_workspace_beside_or_inside_what_is_temporary(workdir: str) -> None:
    assert of_a_pod(workdir=workdir, workspace=CLAIM) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workspace": {"access": "ro"}}, "workspace.access: ro is access to the agent's own workspace"),
        ({"workspace": {"access": "rw", **CLAIM}}, "workspace.access: rw is access"),
        (
            {"workspace": {"access": "rw", "agent": {"configMap": {"name": "souls"}}}},
            "workspace.access: rw needs a workspace that can be written to",
        ),
        ({"workdir": "/agent", "workspace": {"access": "ro", **AGENTS}}, "container.workdir: '/agent'"),
        ({"workdir": "/agent/x", "workspace": {"access": "ro", **AGENTS}}, "container.workdir: '/agent/x'"),
    ],
)
def test_access_that_cannot_be_given(fields: dict[str, Any], message: str) -> None:
    (found,) = of_a_pod(**fields)

    assert found.startswith(message)


@pytest.mark.parametrize(
    ("path", "access", "what"),
    [
        ("/workspace/skills", "none", "the agent's skills are"),
        ("/workspace/skills/", "rw", "the agent's skills are"),
        ("/workspace/x/../skills/one", "ro", "the agent's skills are"),
        ("/agent", "ro", "the agent's own workspace is"),
        ("/agent/notes:size=1m", "ro", "the agent's own workspace is"),
    ],
)
def test_nothing_to_write_to_hides_what_may_only_be_read(path: str, access: str, what: str) -> None:
    (found,) = of_a_pod(tmpfs=(path,), workspace={"access": access, **AGENTS})

    assert found.startswith("container.tmpfs: /")
    assert f"is where {what} mounted, to be read only" in found


@pytest.mark.parametrize(
    ("path", "workspace"),
    [
        ("/workspace/skills", {}),
        ("/workspace/skills", {"agent": {"configMap": {"name": "souls"}}}),
        ("/workspace/skills2", {"access": "ro", **AGENTS}),
        ("/agent", {"access": "rw", **AGENTS}),
        ("/agents", {"access": "ro", **AGENTS}),
    ],
)
def test_where_nothing_is_to_be_read_there_is_room(path: str, workspace: dict[str, Any]) -> None:
    assert of_a_pod(tmpfs=(path,), workspace=workspace) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/workspace", "pod.mounts: '/workspace' is refused"),
        ("/agent/x", "pod.mounts: '/agent/x' is refused"),
        ("/proc/x", "pod.mounts: '/proc/x' is refused"),
        ("/x/../", "pod.mounts: '/x/../' is refused"),
        ("/tmp/", "pod.mounts and container.tmpfs both have /tmp"),
    ],
)
def test_a_shared_volume_without_a_place(path: str, message: str) -> None:
    (found,) = of_a_pod(pod={"mounts": [{"path": path, "claim": {"name": "a"}}]})

    assert found.startswith(message)


def test_the_place_of_skills_is_taken_where_there_are_any() -> None:
    mounts = {"mounts": [{"path": "/workspace/skills", "claim": {"name": "a"}}]}

    assert of_a_pod(pod=mounts) == []
    (found,) = of_a_pod(pod=mounts, workspace=AGENTS)
    assert found.startswith("pod.mounts: '/workspace/skills' is refused")


def test_a_bind_and_a_shared_volume_at_one_place() -> None:
    under = policy(
        container={"binds": ["/srv/a:/a"]}, pod={"mounts": [{"path": "/a", "claim": {"name": "a"}}]}
    )

    problem = resolved(under=under, operated=pods(ceilings={"bindRoots": ["/srv"]})).problem

    assert problem is not None
    assert problem.message == "pod.mounts and container.binds both have /a; leave one out"


def test_what_is_wrong_with_pods_does_not_trouble_containers() -> None:
    under = policy(pod={"ephemeralStorage": "1k"})

    made_from(resolved(under=under))
    problem = resolved(under=under, operated=pods()).problem
    assert problem is not None
    assert problem.reason is Reason.INVALID_CONFIG
