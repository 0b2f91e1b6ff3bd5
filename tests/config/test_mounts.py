"""The table of mounts: what a sandbox finds where, and what it may write to."""

# ruff: noqa: S108 - the paths lie inside a sandbox

from dataclasses import replace
from typing import Any

import pytest

from config.examples import made_from, operator, pods, policy, resolved
from sandkeeper.api.workspace import Access
from sandkeeper.config.mounts import (
    ClaimSource,
    ConfigMapSource,
    HostSource,
    MountPoint,
    OwnSource,
    Role,
    has_skills,
    is_seeded,
    mount_points,
    places_in_workspace,
)
from sandkeeper.config.resolution import RuntimeConfig

AGENT = HostSource("/srv/agents/dev")
COPY = {"hostPath": {"path": "/srv/copies"}}


def made(**said: Any) -> RuntimeConfig:
    """What a policy comes down to on Docker."""
    return made_from(resolved(under=policy(**said), operated=operator(ceilings={"bindRoots": ["/srv"]})))


def as_pod(**said: Any) -> RuntimeConfig:
    """What a policy comes down to as a Pod."""
    return made_from(resolved(under=policy(**said), operated=pods(ceilings={"bindRoots": ["/srv"]})))


def on_host(access: str) -> dict[str, Any]:
    return {
        "access": access,
        "agent": {"hostPath": {"path": "/srv/agents/{agentId}"}},
        "volume": COPY,
    }


WORKSPACE, AGENTS, SKILLS = Role.WORKSPACE, Role.AGENT, Role.SKILLS


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("none", [(WORKSPACE, "/workspace", OwnSource(), False)]),
        (
            "ro",
            [(AGENTS, "/agent", AGENT, True), (WORKSPACE, "/workspace", OwnSource(), True)],
        ),
        ("rw", [(WORKSPACE, "/workspace", AGENT, False)]),
    ],
)
def test_the_table(access: str, expected: list[tuple[Role, str, Any, bool]]) -> None:
    skills = (SKILLS, "/workspace/skills", HostSource("/srv/agents/dev/skills"), True)

    config = made(workspace=on_host(access))

    assert [(p.role, p.target, p.source, p.read_only) for p in mount_points(config)] == [*expected, skills]
    assert is_seeded(config) is (access != "rw")


def test_without_an_agents_workspace_there_is_a_directory_to_write_to() -> None:
    (point,) = mount_points(made())

    assert point == MountPoint(role=WORKSPACE, target="/workspace", source=OwnSource(), read_only=False)
    assert not is_seeded(made())
    assert not has_skills(made())


def test_another_working_directory() -> None:
    targets = [
        point.target for point in mount_points(made(container={"workdir": "/work"}, workspace=on_host("ro")))
    ]

    assert targets == ["/agent", "/work", "/work/skills"]


@pytest.mark.parametrize("container", [{"workdir": "/"}, {"workdir": "/tmp"}])
def test_where_the_image_or_a_tmpfs_is_nothing_is_mounted(container: dict[str, Any]) -> None:
    assert mount_points(made(container=container)) == ()


def test_binds_lie_on_top_parents_first() -> None:
    binds = ["/srv/shared:/workspace/shared:rw", "/srv/x:/a/b", "/srv/y:/a"]

    points = mount_points(made(container={"binds": binds}, workspace=on_host("rw")))

    assert [(point.target, point.read_only) for point in points] == [
        ("/a", True),
        ("/a/b", True),
        ("/workspace", False),
        ("/workspace/shared", False),
        ("/workspace/skills", True),
    ]


def test_volumes_of_pods() -> None:
    config = as_pod(
        workspace={"access": "ro", "agent": {"claim": {"name": "agents", "subPath": "{agentId}"}}},
        pod={"mounts": [{"path": "/workspace/shared", "claim": {"name": "shared"}, "readOnly": False}]},
    )

    assert [(point.target, point.source, point.read_only) for point in mount_points(config)] == [
        ("/agent", ClaimSource(name="agents", sub_path="dev"), True),
        ("/workspace", OwnSource(), True),
        ("/workspace/shared", ClaimSource(name="shared"), False),
        ("/workspace/skills", ClaimSource(name="agents", sub_path="dev/skills"), True),
    ]


def test_all_of_a_claim() -> None:
    config = as_pod(workspace={"access": "rw", "agent": {"claim": {"name": "own"}}})

    assert [point.source for point in mount_points(config)] == [
        ClaimSource(name="own"),
        ClaimSource(name="own", sub_path="skills"),
    ]


def test_a_config_map_has_files_and_no_skills() -> None:
    config = as_pod(workspace={"access": "ro", "agent": {"configMap": {"name": "soul"}}})

    assert [(point.target, point.source) for point in mount_points(config)] == [
        ("/agent", ConfigMapSource("soul")),
        ("/workspace", OwnSource()),
    ]
    assert is_seeded(config)


def test_a_directory_at_the_root_of_a_bind_root_has_one_slash() -> None:
    config = made(workspace={"access": "rw", "agent": {"hostPath": {"path": "/srv"}}})

    assert [point.source for point in mount_points(config)] == [HostSource("/srv"), HostSource("/srv/skills")]


def test_a_whole_disk_has_its_skills_below_one_slash() -> None:
    config = replace(made(), agent=HostSource("/"), access=Access.RW)

    assert [point.source for point in mount_points(config)] == [HostSource("/"), HostSource("/skills")]


def test_the_places_in_a_workspace_are_told_but_not_those_in_them() -> None:
    config = made(
        container={
            "binds": ["/srv/a:/workspace/a/b", "/srv/b:/workspace/a/b/c", "/srv/c:/workspaces/x"],
            "tmpfs": ["/tmp", "/workspace/scratch:size=1m", "/workspace/scratch/more"],
        },
        workspace=on_host("none"),
    )

    assert sorted(places_in_workspace(config)) == ["a/b", "scratch", "skills"]
    assert list(places_in_workspace(made())) == []
