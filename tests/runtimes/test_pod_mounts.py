"""What a sandbox sees of its agent's workspace, as volumes and mounts: the table of the access, from every source."""

# ruff: noqa: S108 - paths inside containers

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtimes.pod_orders import INSTALLATION, order, pod_of
from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent
from sandkeeper.api.workspace import Access
from sandkeeper.config.mounts import mount_points
from sandkeeper.config.operator import Ceilings
from sandkeeper.config.pod import (
    ClaimTemplate,
    ClaimVolume,
    EmptyDirVolume,
    HostPathVolume,
    PodShape,
    SharedMount,
)
from sandkeeper.config.sources import ClaimSource, ConfigMapSource, HostSource
from sandkeeper.runtimes.pod.desired import pod_body
from sandkeeper.runtimes.pod.preparing import prepare_command

Json = dict[str, Any]

OWN = "agent-dev-5rn2m5zp55i6l"
"""The directory of the key in a volume that others have one in, too."""
NAMES = ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md"]
SEEDS = {"source": "/agent", "names": NAMES, "largest": 2097152, "follow_links": False}
READ: Json = {"readOnly": True}
READ_ON_NODE: Json = {"readOnly": True, "recursiveReadOnly": "IfPossible"}


def mount(name: str, path: str, sub_path: str = "", **more: Any) -> Json:
    return {"name": name, "mountPath": path, **({"subPath": sub_path} if sub_path else {}), **more}


def directory(name: str, path: str) -> Json:
    return {"name": name, "hostPath": {"path": path, "type": "Directory"}}


def claim(name: str, of: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": of}}


def seen(**changes: Any) -> tuple[list[Json], list[Json], list[Json]]:
    """Return the volumes, what the sandbox mounts, and what is mounted to prepare it."""
    spec = pod_of(order(tmpfs=(), **changes))["spec"]
    prepare = spec.get("initContainers", [{}])[0].get("volumeMounts", [])
    return spec.get("volumes", []), spec["containers"][0].get("volumeMounts", []), prepare


def task(**changes: Any) -> Json | None:
    """Return what the init container is told to do; None: there is none."""
    wipe = changes.pop("wipe", False)
    wanted = replace(order(**{"tmpfs": (), **changes}), wipe=wipe)
    if "initContainers" not in pod_of(wanted)["spec"]:
        return None
    told: Json = json.loads(prepare_command(wanted)[-1])
    return told


def test_without_an_agents_workspace_there_is_nothing_to_prepare() -> None:
    empty = {"name": "workspace", "emptyDir": {}}
    assert seen() == ([empty], [mount("workspace", "/workspace")], [])


NONE_OF_CLAIM = (
    [{"name": "workspace", "emptyDir": {}}, claim("agent", "household")],
    [mount("workspace", "/workspace"), mount("agent", "/workspace/skills", "agents/dev/skills", **READ)],
    [mount("agent", "/agent", "agents/dev", **READ), mount("workspace", "/workspace")],
)


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (Access.NONE, NONE_OF_CLAIM),
        (
            Access.RO,
            (
                NONE_OF_CLAIM[0],
                [
                    mount("agent", "/agent", "agents/dev", **READ),
                    mount("workspace", "/workspace", **READ),
                    mount("agent", "/workspace/skills", "agents/dev/skills", **READ),
                ],
                NONE_OF_CLAIM[2],
            ),
        ),
        (
            Access.RW,
            (
                [claim("workspace", "household")],
                [
                    mount("workspace", "/workspace", "agents/dev"),
                    mount("workspace", "/workspace/skills", "agents/dev/skills", **READ),
                ],
                [mount("workspace", "/agent", "agents/dev", **READ)],
            ),
        ),
    ],
)
def test_an_agents_workspace_in_a_claim(access: Access, expected: Any) -> None:
    assert seen(access=access, agent=ClaimSource(name="household", sub_path="agents/dev")) == expected


def test_a_whole_claim_as_an_agents_workspace() -> None:
    assert seen(access=Access.RW, agent=ClaimSource(name="dev")) == (
        [claim("workspace", "dev")],
        [mount("workspace", "/workspace"), mount("workspace", "/workspace/skills", "skills", **READ)],
        [mount("workspace", "/agent", **READ)],
    )


AGENT_ON_NODE = mount("agent", "/agent", "agents/dev", **READ_ON_NODE)
SKILLS_ON_NODE = mount("skills", "/workspace/skills", "skills", **READ_ON_NODE)


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (
            Access.NONE,
            (
                [
                    {"name": "workspace", "emptyDir": {}},
                    directory("skills", "/srv/household/agents/dev"),
                    directory("agent", "/srv/household"),
                ],
                [mount("workspace", "/workspace"), SKILLS_ON_NODE],
                [AGENT_ON_NODE, mount("workspace", "/workspace")],
            ),
        ),
        (
            Access.RO,
            (
                [
                    {"name": "workspace", "emptyDir": {}},
                    directory("agent", "/srv/household"),
                    directory("skills", "/srv/household/agents/dev"),
                ],
                [AGENT_ON_NODE, mount("workspace", "/workspace", **READ), SKILLS_ON_NODE],
                [AGENT_ON_NODE, mount("workspace", "/workspace")],
            ),
        ),
        (
            Access.RW,
            (
                [
                    directory("workspace", "/srv/household"),
                    directory("skills", "/srv/household/agents/dev"),
                ],
                [mount("workspace", "/workspace", "agents/dev"), SKILLS_ON_NODE],
                [mount("workspace", "/agent", "agents/dev", **READ_ON_NODE)],
            ),
        ),
    ],
)
def test_an_agents_workspace_on_the_node(access: Access, expected: Any) -> None:
    assert seen(access=access, agent=HostSource("/srv/household/agents/dev")) == expected


@pytest.mark.parametrize(
    ("access", "sandbox"),
    [
        (Access.NONE, [mount("workspace", "/workspace")]),
        (Access.RO, [mount("agent", "/agent", **READ), mount("workspace", "/workspace", **READ)]),
    ],
)
def test_an_agents_files_in_a_config_map(access: Access, sandbox: list[Json]) -> None:
    assert seen(access=access, agent=ConfigMapSource("dev")) == (
        [{"name": "workspace", "emptyDir": {}}, {"name": "agent", "configMap": {"name": "dev"}}],
        sandbox,
        [mount("agent", "/agent", **READ), mount("workspace", "/workspace")],
    )


@pytest.mark.parametrize(
    ("workspace", "volumes", "own"),
    [
        # One volume, however many directories of it are mounted.
        (ClaimVolume("household"), [claim("workspace", "household")], OWN),
        (ClaimTemplate(size=1), [claim("workspace", f"sandkeeper-{OWN}"), claim("agent", "household")], ""),
        (
            HostPathVolume("/srv/copies"),
            [directory("workspace", "/srv"), claim("agent", "household")],
            f"copies/{OWN}",
        ),
    ],
)
def test_where_the_copy_is_kept(workspace: Any, volumes: list[Json], own: str) -> None:
    agent = volumes[-1]["name"]
    assert seen(workspace=workspace, agent=ClaimSource(name="household")) == (
        volumes,
        [mount("workspace", "/workspace", own), mount(agent, "/workspace/skills", "skills", **READ)],
        [mount(agent, "/agent", **READ), mount("workspace", "/workspace", own)],
    )


@pytest.mark.parametrize("workspace", [ClaimVolume("household"), ClaimTemplate(size=1), EmptyDirVolume(5)])
def test_where_there_is_no_copy_nothing_is_kept_anywhere(workspace: Any) -> None:
    agent = ClaimSource(name="dev")
    assert seen(access=Access.RW, agent=agent, workspace=workspace) == seen(access=Access.RW, agent=agent)


@pytest.mark.parametrize("changes", [{"workdir": "/"}, {"tmpfs": ("/workspace",)}])
def test_where_no_workspace_is_mounted_none_is_prepared(changes: dict[str, Any]) -> None:
    wanted = order(agent=ClaimSource(name="dev"), access=Access.RO, **{"tmpfs": (), **changes})
    spec = pod_of(wanted)["spec"]
    assert "initContainers" not in spec
    assert all("emptyDir" in volume for volume in spec.get("volumes", []))


def test_binds_are_read_only_unless_asked_and_lie_in_their_roots() -> None:
    binds = ("/srv/household/shared:/workspace/shared:rw", "/srv/papers/2026:/papers:ro", "/data:/data:ro")
    mounts = (
        SharedMount(
            path="/workspace/team", source=ClaimSource(name="team", sub_path="shared"), read_only=False
        ),
        SharedMount(path="/team", source=ClaimSource(name="team")),
        SharedMount(path="/settings", source=ConfigMapSource("settings")),
    )
    assert seen(binds=binds, pod=PodShape(mounts=mounts)) == (
        [
            {"name": "workspace", "emptyDir": {}},
            directory("bind-0", "/data"),
            directory("bind-1", "/srv"),
            {"name": "bind-2", "configMap": {"name": "settings"}},
            claim("bind-3", "team"),
            directory("bind-4", "/srv/household"),
        ],
        [
            mount("bind-0", "/data", **READ_ON_NODE),
            mount("bind-1", "/papers", "papers/2026", **READ_ON_NODE),
            mount("bind-2", "/settings", **READ),
            mount("bind-3", "/team", **READ),
            mount("workspace", "/workspace"),
            mount("bind-4", "/workspace/shared", "shared"),
            mount("bind-3", "/workspace/team", "shared"),
        ],
        [],
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"binds": ("/srv2/x:/x:ro",)},
        {"binds": ("/etc/x:/x:ro",)},
        {"binds": ("/srv/.ssh:/x:ro",)},
        {"agent": HostSource("/elsewhere/dev")},
        {"agent": HostSource("/elsewhere/dev"), "access": Access.RW},
        {"workspace": HostPathVolume("/elsewhere")},
    ],
)
def test_what_the_ceilings_do_not_allow_is_in_no_pod(changes: dict[str, Any]) -> None:
    """It was refused before. But nothing reaches a node that was not looked at immediately before."""
    with pytest.raises(Permanent) as caught:
        seen(**changes)
    assert caught.value.reason is Reason.BIND_REFUSED
    assert " is refused: " in caught.value.message


@given(
    access=st.sampled_from(Access),
    agent=st.sampled_from(
        [None, ClaimSource(name="c"), ClaimSource(name="d", sub_path="x"), HostSource("/srv/a")]
    ),
    workspace=st.sampled_from(
        [EmptyDirVolume(), ClaimVolume("c"), ClaimTemplate(size=1), HostPathVolume("/srv/a")]
    ),
    binds=st.lists(
        st.sampled_from(["/srv/a:/a:rw", "/data/x:/x:ro", "/srv/household:/workspace/h:ro"]), unique=True
    ),
)
@example(access=Access.RW, agent=None, workspace=ClaimVolume("c"), binds=[])
def test_everything_is_mounted_once_where_it_should_be_and_from_a_volume_that_is_there(
    access: Access, agent: Any, workspace: Any, binds: list[str]
) -> None:
    changes = {"access": access, "agent": agent, "workspace": workspace, "binds": tuple(binds)}
    volumes, sandbox, prepare = seen(**changes)

    wanted = {point.target: point.read_only for point in mount_points(order(**changes).config)}
    assert {one["mountPath"]: one.get("readOnly", False) for one in sandbox} == wanted
    assert len(sandbox) == len(wanted)
    names = [volume["name"] for volume in volumes]
    assert len(names) == len(set(names))
    assert {one["name"] for one in (*sandbox, *prepare)} == set(names)
    sources = [json.dumps({**volume, "name": ""}) for volume in volumes]
    assert len(sources) == len(set(sources))
    # What prepares is handed nothing to write to that the sandbox may not, but its own workspace.
    writable = [one["mountPath"] for one in prepare if "readOnly" not in one]
    assert writable in ([], ["/workspace"])


# --- what is to be prepared -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"wipe": True}, None),  # a new directory is empty
        ({"workspace": ClaimVolume("c")}, None),
        (
            {"workspace": ClaimVolume("c"), "wipe": True},
            {"target": "/workspace", "directories": [], "wipe": True},
        ),
        (
            {"workspace": HostPathVolume("/srv"), "wipe": True, "tmpfs": ("/workspace/cache", "/tmp")},
            {"target": "/workspace", "directories": ["cache"], "wipe": True},
        ),
        (
            {"agent": ClaimSource(name="dev")},
            {"target": "/workspace", "directories": ["skills"], "skills_in": "/agent", **SEEDS},
        ),
        (
            {"agent": HostSource("/srv/dev"), "access": Access.RO},
            {"target": "/workspace", "directories": ["skills"], "skills_in": "/agent", **SEEDS},
        ),
        (
            {"agent": ConfigMapSource("dev")},
            {"target": "/workspace", "directories": [], **SEEDS, "follow_links": True},
        ),
        (
            {"agent": ClaimSource(name="dev"), "workspace": ClaimTemplate(size=1), "wipe": True},
            {
                "target": "/workspace",
                "directories": ["skills"],
                "skills_in": "/agent",
                "wipe": True,
                **SEEDS,
            },
        ),
        # Nobody wipes what is the agent's own.
        (
            {"agent": ClaimSource(name="dev"), "access": Access.RW, "wipe": True},
            {"target": "/agent", "directories": ["skills"], "skills_in": "/agent"},
        ),
        (
            {
                "agent": ClaimSource(name="dev"),
                "access": Access.RW,
                "binds": ("/srv/a:/workspace/shared/a:ro", "/srv/b:/workspace/shared/a/b:ro", "/srv/c:/c:ro"),
            },
            {"target": "/agent", "directories": ["shared/a", "skills"], "skills_in": "/agent"},
        ),
    ],
)
def test_what_is_to_be_prepared(changes: dict[str, Any], expected: Json | None) -> None:
    assert task(**changes) == expected


def test_a_bind_root_is_found_however_it_is_written() -> None:
    ceilings = Ceilings(bind_roots=("//srv/./household/",))
    made = pod_body(order(binds=("/srv/household/x:/x:ro",)), installation=INSTALLATION, ceilings=ceilings)
    assert made["spec"]["volumes"][1]["hostPath"]["path"] == "/srv/household"
