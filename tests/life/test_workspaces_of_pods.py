"""What a Pod sees of its agent's workspace, on the real node: the table of the access, seeds, skills, shares, links.

The directories of the node, and those that its volumes are made of, are directories of this machine.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.operator import OperatorFactory, OperatorProcess, Sandboxes
from support.pods import Pods, serving_pods
from support.volumes import GROUP, Volumes, claim
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster]

USER = 1000
"""Whom the agents' workspaces belong to, and as whom sandboxes run."""
LARGEST = 2_097_152
POLICY: dict[str, Any] = {"hotWindowSeconds": 1}


@pytest.fixture
def operator(operator_factory: OperatorFactory, volumes: Volumes) -> OperatorProcess:
    """One that allows what lies in the test's directories. A directory in ``copies`` gets the mode of that one."""
    volumes.root.chmod(0o755)
    roots = [str(volumes.root), str(volumes.root / "copies")]
    return operator_factory(**serving_pods(ceilings={"bindRoots": roots})).wait_ready()


def fill(path: Path, files: dict[str, str]) -> Path:
    """Write files as the agent itself does, and the directories that they are in."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    for one in (path, *path.rglob("*")):
        os.chown(one, USER, USER, follow_symlinks=False)
    return path


def sh(sandboxes: Sandboxes, name: str, command: str) -> str:
    """Run a command where the Sandbox's commands run, and return all that it prints."""
    pod = sandboxes.status(name)["runtime"]["name"]
    return sandboxes.kubectl("exec", pod, "--", "sh", "-c", f"exec 2>&1; {command} || true").strip()


def has(access: str, agent: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make the workspace section of a policy."""
    return {"access": access, "agent": agent, **more}


def of(name: str, workspace: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make the entry of a policy for one agent."""
    return {"id": name, "workspace": workspace, **more}


def again(sandboxes: Sandboxes, name: str, **annotation: str) -> dict[str, Any]:
    """Ask for another runtime, and wait until it is ready."""
    old = sandboxes.status(name)["runtime"]["id"]
    sandboxes.annotate(name, **(annotation or {"recreate": old}))
    wait_for(
        lambda: sandboxes.status(name).get("runtime", {}).get("id", old) != old,
        what=f"{name} has another runtime",
        tell=lambda: sandboxes.kubectl("get", "sandboxes", "-o", "yaml"),
    )
    return sandboxes.wait(name, "Running")


def lacks(sandboxes: Sandboxes, name: str) -> tuple[str, str]:
    """Return what the workspace lacks, and why; empty: nothing."""
    for condition in sandboxes.status(name)["conditions"]:
        if condition["type"] == "WorkspaceIncomplete":
            return condition["reason"], condition["message"]
    return "", ""


# --- the table --------------------------------------------------------------------------------------------------------

TRIED = (
    "cat SOUL.md; echo; cat skills/*/SKILL.md; echo; ls /agent; for place in . skills /agent; do "
    "touch $place/new && echo wrote $place; done; mv skills elsewhere && echo moved; rmdir skills && echo removed"
)
"""What is there, and what can be done to it."""

SEEN = {
    "none": """\
the soul
a skill
ls: cannot access '/agent': No such file or directory
wrote .
touch: cannot touch 'skills/new': Read-only file system
touch: cannot touch '/agent/new': No such file or directory
mv: cannot move 'skills' to 'elsewhere': Device or resource busy
rmdir: failed to remove 'skills': Device or resource busy""",
    "ro": """\
the soul
a skill
MEMORY.md
SOUL.md
skills
touch: cannot touch './new': Read-only file system
touch: cannot touch 'skills/new': Read-only file system
touch: cannot touch '/agent/new': Read-only file system
mv: cannot move 'skills' to 'elsewhere': Read-only file system
rmdir: failed to remove 'skills': Read-only file system""",
    "rw": """\
the soul
a skill
ls: cannot access '/agent': No such file or directory
wrote .
touch: cannot touch 'skills/new': Read-only file system
touch: cannot touch '/agent/new': No such file or directory
mv: cannot move 'skills' to 'elsewhere': Device or resource busy
rmdir: failed to remove 'skills': Device or resource busy""",
}


@pytest.mark.parametrize("source", ["claim", "hostPath"])
def test_the_table_of_the_access(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes, source: str
) -> None:
    if source == "claim":
        top, agent = (
            volumes.bring("household"),
            {"claim": {"name": "household", "subPath": "agents/{agentId}"}},
        )
        pod_sandboxes.apply(claim("household"))
    else:
        top = volumes.directory("household", mode=0o755)
        agent = {"hostPath": {"path": f"{top}/agents/{{agentId}}"}}
    homes = {
        name: fill(
            top / "agents" / name,
            {"SOUL.md": "the soul", "MEMORY.md": "a secret", "skills/one/SKILL.md": "a skill"},
        )
        for name in SEEN
    }
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            workspace={"agent": agent}, agents=[of(name, {"access": name}) for name in SEEN]
        ),
        *map(pod_sandboxes.sandbox, SEEN),
    )
    for access, seen in SEEN.items():
        pod_sandboxes.wait(access, "Running")
        assert sh(pod_sandboxes, access, TRIED) == seen
        # What there is beside the seven files stays where it is.
        files = sorted(path.name for path in homes[access].iterdir())
        assert files == sorted(["SOUL.md", "MEMORY.md", "skills"] + ["new"] * (access == "rw"))
        memory = sh(pod_sandboxes, access, "cat MEMORY.md /agent/MEMORY.md 2>/dev/null")
        assert memory == ("" if access == "none" else "a secret")
        assert pod_sandboxes.status(access)["runtime"]["user"] == f"{USER}:{USER}"
        assert lacks(pod_sandboxes, access) == ("", "")
    assert (homes["rw"] / "new").stat().st_uid == USER


@pytest.mark.parametrize("access", ["none", "ro"])
def test_the_table_of_the_access_from_a_config_map(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, access: str
) -> None:
    agent = {"configMap": {"name": "agent-{agentId}"}}
    pod_sandboxes.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "agent-rain"},
            "data": {"SOUL.md": "the soul", "MEMORY.md": "a secret"},
        },
        pod_sandboxes.policy(workspace=has(access, agent)),
        pod_sandboxes.sandbox("rain"),
    )
    pod_sandboxes.wait("rain", "Running")
    assert sh(pod_sandboxes, "rain", "cat SOUL.md; stat -c ' %u %F' SOUL.md; ls") == (
        "the soul 1000 regular file\nSOUL.md"
    )
    writes = sh(pod_sandboxes, "rain", "touch new && echo yes; ls /agent; touch /agent/new && echo yes")
    assert lacks(pod_sandboxes, "rain") == ("", "")
    if access == "ro":
        assert writes == (
            "touch: cannot touch 'new': Read-only file system\nMEMORY.md\nSOUL.md\n"
            "touch: cannot touch '/agent/new': Read-only file system"
        )
    else:
        assert writes.splitlines()[0] == "yes"
        assert "No such file" in writes


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_a_copy_begins_with_what_is_missing_and_keeps_what_became_of_it(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    home = fill(volumes.root / "rain", {"SOUL.md": "first", "USER.md": "u", "IDENTITY.md": "i", "notes": "n"})
    (home / "AGENTS.md").write_bytes(b"x" * (LARGEST + 1))
    (home / "HEARTBEAT.md").write_bytes(b"x" * LARGEST)
    (home / "TOOLS.md").symlink_to("/etc/passwd")
    os.link(home / "USER.md", volumes.root / "another-name")
    volumes.bring("copies")
    agent = {"hostPath": {"path": f"{volumes.root}/{{agentId}}"}}
    workspace = has("none", agent, volume={"claim": {"name": "copies"}})
    pod_sandboxes.apply(
        claim("copies"), pod_sandboxes.policy(**POLICY, workspace=workspace), pod_sandboxes.sandbox("rain")
    )
    pod_sandboxes.wait("rain", "Running")
    assert sh(pod_sandboxes, "rain", "ls; cat SOUL.md") == "HEARTBEAT.md\nIDENTITY.md\nSOUL.md\nskills\nfirst"
    reason, message = lacks(pod_sandboxes, "rain")
    assert reason == "SeedSkipped"
    assert message.split("; ") == [
        f"AGENTS.md is not copied: it has more than {LARGEST} bytes",
        "TOOLS.md is not copied: it is a link",
        "USER.md is not copied: it is a hard link: the same file has another name, which may be anywhere",
    ]

    # The one does not become the other any more.
    sh(
        pod_sandboxes,
        "rain",
        "echo grown > SOUL.md; rm IDENTITY.md; echo mine > work; ln -s /etc/passwd AGENTS.md",
    )
    fill(home, {"SOUL.md": "second", "IDENTITY.md": "later", "BOOTSTRAP.md": "b"})
    (home / "AGENTS.md").unlink()
    fill(home, {"AGENTS.md": "small by now"})
    assert sh(pod_sandboxes, "rain", "cat SOUL.md; ls IDENTITY.md BOOTSTRAP.md 2>/dev/null") == "grown"
    again(pod_sandboxes, "rain")
    # What is missing is copied, and what is there is left, link or no link.
    assert sh(pod_sandboxes, "rain", "cat SOUL.md work IDENTITY.md; readlink AGENTS.md") == (
        "grown\nmine\nlater/etc/passwd"
    )
    assert "AGENTS.md" not in lacks(pod_sandboxes, "rain")[1]

    # A wipe makes a fresh copy, and nothing but a copy.
    sh(pod_sandboxes, "rain", "mkdir -p a/b && touch a/b/c && chmod 0 a; echo > .hidden")
    before = sorted(home.iterdir())
    again(pod_sandboxes, "rain", wipe="1")
    assert sh(pod_sandboxes, "rain", "ls -A; cat SOUL.md AGENTS.md") == (
        "AGENTS.md\nBOOTSTRAP.md\nHEARTBEAT.md\nIDENTITY.md\nSOUL.md\nskills\nsecondsmall by now"
    )
    assert sorted(home.iterdir()) == before
    assert pod_sandboxes.status("rain")["wipe"] == "1"

    # It is done once for each time that it is asked for, and as often as it takes.
    sh(pod_sandboxes, "rain", "echo grown > SOUL.md")
    again(pod_sandboxes, "rain")
    assert sh(pod_sandboxes, "rain", "cat SOUL.md") == "grown"
    (home / "skills").rmdir()
    (home / "skills").symlink_to("/etc")
    pod_sandboxes.annotate("rain", wipe="2")
    pod_sandboxes.wait("rain", "SeedingFailed", timeout=120)
    assert pod_sandboxes.status("rain")["wipe"] == "1"
    (home / "skills").unlink()
    pod_sandboxes.wait("rain", "Running", timeout=120)
    assert sh(pod_sandboxes, "rain", "cat SOUL.md") == "second"
    assert pod_sandboxes.status("rain")["wipe"] == "2"


def test_a_wipe_empties_what_is_the_runtimes_own_and_nothing_else(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    home = fill(volumes.root / "agents/rw", {"SOUL.md": "the soul", "skills/one": "a skill"})
    shared, copies = volumes.directory("shared"), volumes.directory("copies")
    volumes.bring("household")
    workspace = {
        "template": {"volume": {"template": {"size": "1g", "storageClassName": "", "retention": "Retain"}}},
        "node": {"volume": {"hostPath": {"path": str(copies)}}},
        "claim": {"volume": {"claim": {"name": "household"}}},
        "rw": has("rw", {"hostPath": {"path": str(home)}}),
    }
    binds = [f"{shared}:/workspace/shared:rw"]
    pod_sandboxes.apply(
        claim("household"),
        pod_sandboxes.policy(
            **POLICY, container={"binds": binds}, agents=[of(*one) for one in workspace.items()]
        ),
        *map(pod_sandboxes.sandbox, workspace),
    )
    wait_for(
        lambda: "template" in pod_sandboxes.kubectl("get", "pvc", "-o", "name"), what="the claim is made"
    )
    (made,) = (
        name
        for name in pod_sandboxes.kubectl("get", "pvc", "-o", "jsonpath={.items[*].metadata.name}").split()
        if "template" in name
    )
    disk = volumes.bring(made)
    (disk / "lost+found").mkdir(mode=0o700)
    for name in workspace:
        pod_sandboxes.wait(name, "Running")
        sh(pod_sandboxes, name, f"mkdir d; touch d/{name} {name} shared/{name}")
        assert sh(pod_sandboxes, name, "ls -d d").endswith("d")
    for name in workspace:
        again(pod_sandboxes, name, wipe="afresh")
    left = {name: sh(pod_sandboxes, name, "ls -A").split() for name in workspace}
    assert left == {
        "template": ["lost+found", "shared"],
        "node": ["shared"],
        "claim": ["shared"],
        "rw": ["SOUL.md", "d", "rw", "shared", "skills"],
    }
    assert sorted(path.name for path in shared.iterdir()) == sorted(workspace)
    assert (home / "skills/one").read_text() == "a skill"


# --- skills -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", ["none", "ro", "rw"])
def test_skills_are_the_agents_own(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes, access: str
) -> None:
    home = fill(volumes.root / "rain", {"skills/one/SKILL.md": "first", "skills/gone": "soon"})
    agent = {"hostPath": {"path": str(home)}}
    pod_sandboxes.apply(pod_sandboxes.policy(workspace=has(access, agent)), pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    pod = pod_sandboxes.status("rain")["runtime"]["id"]
    assert sh(pod_sandboxes, "rain", "ls skills; cat skills/one/SKILL.md") == "gone\none\nfirst"
    (home / "skills/gone").unlink()
    fill(home, {"skills/one/SKILL.md": "second", "skills/two/SKILL.md": "new"})
    # Without a use, a sweep, or another Pod.
    assert sh(pod_sandboxes, "rain", "ls skills; cat skills/*/SKILL.md") == "one\ntwo\nsecondnew"
    assert pod_sandboxes.status("rain")["runtime"]["id"] == pod


def test_where_an_agent_has_no_skills_a_place_is_made_for_them(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    homes = {name: fill(volumes.root / name, {"SOUL.md": name}) for name in ("none", "ro", "rw")}
    for home in homes.values():
        home.chmod(0o2750)
    agent = {"hostPath": {"path": f"{volumes.root}/{{agentId}}"}}
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            workspace={"agent": agent}, agents=[of(name, {"access": name}) for name in homes]
        ),
        *map(pod_sandboxes.sandbox, homes),
    )
    made = {}
    for name, home in homes.items():
        pod_sandboxes.wait(name, "Running")
        assert sh(pod_sandboxes, name, "ls skills; touch skills/new") == (
            "touch: cannot touch 'skills/new': Read-only file system"
        )
        seen = (home / "skills").stat()
        made[name] = (seen.st_uid, seen.st_gid, f"{seen.st_mode & 0o7777:o}")
    # What prepares does not write to an agent's own workspace: the kubelet makes it, like the directory that it is
    # in, and as root.
    assert made == dict.fromkeys(homes, (0, USER, "2750"))


def test_sessions_of_an_agent_share_its_workspace_and_none_of_them_its_skills(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    home = fill(volumes.root / "rain", {"SOUL.md": "the soul", "skills/one": "a skill"})
    names = ("first", "second")
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            scope="session", workspace=has("rw", {"hostPath": {"path": f"{volumes.root}/{{agentId}}"}})
        ),
        *(pod_sandboxes.sandbox(name, agentId="rain", sessionKey=name) for name in names),
    )
    for name in names:
        pod_sandboxes.wait(name, "Running")
    sh(pod_sandboxes, "first", "echo grown > SOUL.md")
    for name in names:
        tried = "cat SOUL.md; mv skills away; rmdir skills; ln -sfn /etc skills; rm -r skills; cat skills/one"
        said = sh(pod_sandboxes, name, tried)
        assert said.splitlines()[0] == "grown"
        assert said.endswith("a skill")
    assert not (home / "skills").is_symlink()
    assert sorted(path.name for path in (home / "skills").iterdir()) == ["one"]


# --- what is shared ---------------------------------------------------------------------------------------------------


def test_two_agents_share_a_directory_of_a_claim(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    disk = volumes.bring("household")
    fill(disk / "agents/rain", {"SOUL.md": "rain", "MEMORY.md": "rain's secret"})
    fill(disk / "agents/tio", {"SOUL.md": "tio", "MEMORY.md": "tio's secret"})
    fill(disk / "papers", {"law": "read me"})
    (disk / "shared").mkdir(mode=0o2770)
    os.chown(disk / "shared", 0, GROUP)
    (disk / "shared").chmod(0o2770)
    mounts = [
        {
            "path": "/workspace/shared",
            "claim": {"name": "household", "subPath": "shared"},
            "readOnly": False,
        },
        {"path": "/papers", "claim": {"name": "household", "subPath": "papers"}},
        {"path": "/etc/settings", "configMap": {"name": "settings"}},
    ]
    agent = {"claim": {"name": "household", "subPath": "agents/{agentId}"}}
    pod_sandboxes.apply(
        claim("household"),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"colour": "blue"},
        },
        pod_sandboxes.policy(workspace=has("rw", agent), pod={"mounts": mounts}),
        *map(pod_sandboxes.sandbox, ("rain", "tio")),
    )
    for name in ("rain", "tio"):
        pod_sandboxes.wait(name, "Running")
        said = sh(pod_sandboxes, name, "cat SOUL.md /papers/law /etc/settings/colour; echo; touch /papers/x")
        assert said == f"{name}read meblue\ntouch: cannot touch '/papers/x': Read-only file system"
        sh(pod_sandboxes, name, f"echo from {name} > shared/{name}; ln -s ../MEMORY.md shared/link-{name}")
        # What one puts there leads the other nowhere but to what is the other's own.
    for name, other in (("rain", "tio"), ("tio", "rain")):
        said = sh(
            pod_sandboxes, name, f"cat shared/{other} shared/link-{other}; ls .. /workspace/../agents /agent"
        )
        assert said.startswith(f"from {other}\n{name}'s secret")
        assert f"{other}'s secret" not in said
        assert (
            sh(pod_sandboxes, name, f"grep -rs {other}.s.secret / --exclude-dir=proc --exclude-dir=sys") == ""
        )


def test_where_agents_share_a_sandbox_it_has_no_agents_workspace(
    pod_operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods
) -> None:
    agent = {"claim": {"name": "household", "subPath": "agents/{agentId}"}}
    pod_sandboxes.apply(
        pod_sandboxes.policy(scope="shared", workspace=has("rw", agent)), pod_sandboxes.sandbox("rain")
    )
    message = pod_sandboxes.wait("rain", "WorkspaceAmbiguous")["message"]
    assert "{agentId}" in message
    assert pods() == []


def test_nothing_is_mounted_that_another_sandbox_could_swap(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes
) -> None:
    fill(volumes.root / "shared", {"inner/file": "inner"})
    everything = {"container": {"binds": [f"{volumes.root}/shared:/workspace/shared:rw"]}}
    inner = {"container": {"binds": [f"{volumes.root}/shared/inner:/inner:ro"]}}
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            **POLICY,
            agents=[{"id": "rain", **everything}, {"id": "tio", **inner}, {"id": "kite", **everything}],
        ),
        pod_sandboxes.sandbox("rain"),
    )
    pod_sandboxes.wait("rain", "Running")
    pod_sandboxes.apply(pod_sandboxes.sandbox("tio"), pod_sandboxes.sandbox("kite"))
    message = pod_sandboxes.wait("tio", "BindRefused")["message"]
    assert message == (
        f"'{volumes.root}/shared/inner' is refused: it lies in {volumes.root}/shared, to which a sandbox writes, so it "
        "could be swapped for a link to anything at any moment; bind that directory itself, or keep the two apart"
    )
    pod_sandboxes.wait("kite", "Running")
    assert len(pods()) == 2
    pod_sandboxes.kubectl("delete", "sandbox", "rain", "kite")
    pod_sandboxes.wait("tio", "Running", timeout=120)
    # And then it is the other that goes on: what is mounted already nobody can swap.
    pod_sandboxes.apply(pod_sandboxes.sandbox("rain"))
    pod_sandboxes.wait("rain", "Running")
    assert sh(pod_sandboxes, "rain", "mv shared/inner shared/away; ln -s /etc shared/inner") == ""
    assert sh(pod_sandboxes, "tio", "cat /inner/file") == "inner"


# --- links ------------------------------------------------------------------------------------------------------------

NO_WAY_OUT = "A link in the path of a directory leads out of its volume"

DOORS: dict[str, Callable[[str], dict[str, Any]]] = {
    "bind": lambda door: {"container": {"binds": [f"{door}/inner:/inner:rw"]}},
    "mount": lambda door: {
        "pod": {
            "mounts": [
                {"path": "/inner", "claim": {"name": "disk", "subPath": f"{Path(door).name}/inner"}},
            ]
        }
    },
    "rw": lambda door: {"workspace": has("rw", {"hostPath": {"path": f"{door}/inner"}})},
    "none": lambda door: {"workspace": has("none", {"hostPath": {"path": f"{door}/inner"}})},
    "root": lambda door: {"workspace": {"volume": {"hostPath": {"path": f"{door}/inner"}}}},
}
"""What a policy may ask for that lies behind a door."""


@pytest.mark.parametrize("leads", ["to what is there", "to nothing", "upwards"])
def test_no_link_leads_out_of_what_is_allowed(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes, tmp_path: Path, leads: str
) -> None:
    """A link at a parent, whose leaf is there, or is not yet. The operator sees neither, and the node both."""
    outside = fill(
        tmp_path / "outside", {} if leads == "to nothing" else {"inner/secret": "nobody's business"}
    )
    disk = volumes.bring("disk")
    doors = {name: (disk if name == "mount" else volumes.root) / f"door-{name}" for name in DOORS}
    for door in doors.values():
        door.symlink_to(os.path.relpath(outside, door.parent) if leads == "upwards" else outside)
    before = sorted(outside.rglob("*"))
    pod_sandboxes.apply(
        claim("disk"),
        pod_sandboxes.policy(agents=[{"id": name, **ask(str(doors[name]))} for name, ask in DOORS.items()]),
        *map(pod_sandboxes.sandbox, DOORS),
    )
    for name in DOORS:
        # An agent's workspace has to be there.
        is_missing = leads == "to nothing" and name in {"rw", "none"}
        told = pod_sandboxes.wait(name, "VolumeMissing" if is_missing else "StartFailed", timeout=120)
        assert ("is not a directory" if is_missing else NO_WAY_OUT) in told["message"]
        assert "nobody's business" not in str(told)
    assert sorted(outside.rglob("*")) == before
    for door in doors.values():
        door.unlink()
        fill(door / "inner", {})
    for name in DOORS:
        pod_sandboxes.wait(name, "Running", timeout=180)


def test_a_link_that_stays_below_a_root_is_followed(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    """Whoever may make one there is the installer's to say; a sandbox may not where others have their directories."""
    fill(volumes.root / "real", {"file": "what is there"})
    links = {"inside": "real", "absolute": str(volumes.root / "real"), "dangling": "nothing", "loop": "loop"}
    for name, place in links.items():
        (volumes.root / name).symlink_to(place)
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            agents=[{"id": name, "container": {"binds": [f"{volumes.root}/{name}:/inner"]}} for name in links]
        ),
        *map(pod_sandboxes.sandbox, links),
    )
    for name in ("inside", "absolute"):
        pod_sandboxes.wait(name, "Running")
        assert sh(pod_sandboxes, name, "cat /inner/file; touch /inner/new") == (
            "what is theretouch: cannot touch '/inner/new': Read-only file system"
        )
    for name in ("dangling", "loop"):
        assert NO_WAY_OUT in pod_sandboxes.wait(name, "StartFailed")["message"]
    assert not (volumes.root / "nothing").exists()


def test_skills_are_no_link_wherever_it_leads(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    """A link that an agent left when it could: inside of what is allowed, to the other agent's files."""
    fill(volumes.root / "tio", {"MEMORY.md": "tio's secret"})
    places = {"none": "../tio", "ro": str(volumes.root / "tio"), "rw": "/etc", "inside": "."}
    homes = {name: fill(volumes.root / name, {"SOUL.md": "the soul"}) for name in places}
    for name, place in places.items():
        (homes[name] / "skills").symlink_to(place)
    agent = {"hostPath": {"path": f"{volumes.root}/{{agentId}}"}}
    access = {name: "none" if name == "inside" else name for name in places}
    pod_sandboxes.apply(
        pod_sandboxes.policy(
            workspace={"agent": agent}, agents=[of(name, {"access": access[name]}) for name in places]
        ),
        *map(pod_sandboxes.sandbox, places),
    )
    for name in places:
        message = pod_sandboxes.wait(name, "SeedingFailed", timeout=120)["message"]
        assert message == (
            "The workspace cannot be prepared: skills in the agent's workspace is a link or a file; make it a directory"
        )
    for home in homes.values():
        (home / "skills").unlink()
    for name in places:
        pod_sandboxes.wait(name, "Running", timeout=180)


def test_what_the_kubelet_makes_where_there_is_nothing(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, volumes: Volumes
) -> None:
    """As root, and with the mode of the volume that it is in."""
    volumes.root.chmod(0o751)
    copies, disk = volumes.directory("copies"), volumes.bring("disk", mode=0o1777)
    agents = [
        of("root", {"volume": {"hostPath": {"path": str(copies)}}}),
        of("deeper", {"volume": {"hostPath": {"path": str(volumes.root / "a/b")}}}),
        of("claim", has("rw", {"claim": {"name": "disk", "subPath": "agents/{agentId}"}})),
        {"id": "bind", "container": {"binds": [f"{volumes.root}/c/d:/inner:rw"]}},
    ]
    pod_sandboxes.apply(
        claim("disk"),
        pod_sandboxes.policy(agents=agents),
        *(pod_sandboxes.sandbox(agent["id"]) for agent in agents),
    )
    for agent in agents:
        pod_sandboxes.wait(agent["id"], "Running")
    made = {
        "root": next(copies.iterdir()),
        "deeper": next((volumes.root / "a/b").iterdir()),
        "claim": disk / "agents/claim",
        "bind": volumes.root / "c/d",
    }
    modes = {name: f"{path.stat().st_uid} {path.stat().st_mode & 0o7777:o}" for name, path in made.items()}
    assert modes == {"root": "0 2770", "deeper": "0 751", "claim": "0 1777", "bind": "0 751"}


# --- what is missing --------------------------------------------------------------------------------------------------


def test_what_is_missing_is_told_and_waited_for(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes
) -> None:
    disk = volumes.bring("household")
    later = volumes.root / "later"
    settings = {"path": "/settings", "configMap": {"name": "settings"}}
    agents = [
        of("claim", has("ro", {"claim": {"name": "household"}})),
        {"id": "mount", "pod": {"mounts": [{"path": "/inner", "claim": {"name": "household"}}]}},
        of("directory", has("ro", {"hostPath": {"path": str(later)}})),
        of("config-map", has("ro", {"configMap": {"name": "settings"}})),
        {"id": "settings", "pod": {"mounts": [settings]}},
    ]
    pod_sandboxes.apply(
        pod_sandboxes.policy(agents=agents), *(pod_sandboxes.sandbox(agent["id"]) for agent in agents)
    )
    said = {
        agent["id"]: pod_sandboxes.wait(agent["id"], "VolumeMissing", timeout=120)["message"]
        for agent in agents
    }
    no_claim = "There is no PersistentVolumeClaim household in the namespace: make it, or name another."
    assert (said["claim"], said["mount"]) == (no_claim, no_claim)
    assert f"{later} is not a directory" in said["directory"]
    assert 'configmap "settings" not found' in said["config-map"]
    assert 'configmap "settings" not found' in said["settings"]
    fill(disk, {"SOUL.md": "from the claim"})
    fill(later, {"SOUL.md": "from the directory"})
    pod_sandboxes.apply(
        claim("household"),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"SOUL.md": "from the map"},
        },
    )
    for agent in agents:
        pod_sandboxes.wait(agent["id"], "Running", timeout=180)
    assert sh(pod_sandboxes, "claim", "cat SOUL.md") == "from the claim"
    assert sh(pod_sandboxes, "directory", "cat SOUL.md") == "from the directory"
    assert sh(pod_sandboxes, "config-map", "cat SOUL.md") == "from the map"


def test_an_image_that_cannot_prepare_a_workspace_is_told_of(
    operator: OperatorProcess, pod_sandboxes: Sandboxes, pods: Pods, volumes: Volumes, tiny_pod_image: str
) -> None:
    home = fill(volumes.root / "rain", {"SOUL.md": "the soul"})
    policy: dict[str, Any] = {"workspace": has("none", {"hostPath": {"path": str(home)}})}
    pod_sandboxes.apply(
        pod_sandboxes.policy(**policy, container={"image": tiny_pod_image}), pod_sandboxes.sandbox("rain")
    )
    message = pod_sandboxes.wait("rain", "SeedingFailed")["message"]
    assert message.startswith("The workspace cannot be prepared: the image needs python3 for it (")
    # It counts as dead, and is made again ever more slowly.
    wait_for(lambda: pods() == [], what="the Pod is gone")
    wait_for(lambda: pods() != [], what="another is made")
    pod_sandboxes.apply(pod_sandboxes.policy(**policy))
    pod_sandboxes.wait("rain", "Running", timeout=120)
    assert sh(pod_sandboxes, "rain", "cat SOUL.md") == "the soul"


def test_where_the_strictest_standard_holds(
    cluster: Cluster,
    namespace: str,
    pod_operator: OperatorProcess,
    pod_sandboxes: Sandboxes,
    volumes: Volumes,
) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    fill(volumes.bring("household") / "rain", {"SOUL.md": "the soul", "skills/one": "a skill"})
    pod_sandboxes.apply(
        claim("household"),
        pod_sandboxes.policy(workspace=has("none", {"claim": {"name": "household", "subPath": "{agentId}"}})),
        pod_sandboxes.sandbox("rain"),
    )
    pod_sandboxes.wait("rain", "Running")
    assert sh(pod_sandboxes, "rain", "cat SOUL.md; ls skills") == "the soulone"
