"""Directories of the host that are others than they seem.

A bind is the shortest way out. What its text says is checked before anything is made (see the authors above); here the
text is harmless, and the directory is not.
"""

import os
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from attacks.register import On, attack
from attacks.stage import ON_CONTAINERS, Stage

pytestmark = pytest.mark.cluster

OUTSIDE = "what lies outside of every bind root"


@pytest.fixture
def outside(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that no bind root contains, and that everybody could read."""
    path = tmp_path_factory.mktemp("outside")
    for parent in (path, path.parent):
        parent.chmod(0o755)
    stage.world.file(path / "secret", OUTSIDE)
    (path / "below").mkdir()
    return path


def never_ran(stage: Stage, *names: str, **since: str) -> None:
    """Make sure that none of the Sandboxes comes to be, and that nothing of them ran that could have seen anything."""
    stage.refusals(*names)
    assert not [name for name in names if stage.ran(name, **since)]


@attack(
    "binds through links below a bind root that lead out of it: to a directory, by a parent whose leaf does not exist "
    "yet, to `/etc`, to `/`, up, in a circle",
    stopped_by="container: sources are resolved through their deepest existing ancestor, and checked (`BindRefused`); "
    "Pod: the volume is the bind root, and the kubelet starts no container whose directory in it leads out of it",
)
def test_links_out_of_a_bind_root(stage: Stage, outside: Path) -> None:
    place = stage.world.directory(stage.name("links"), mode=0o755)
    links = {
        "directory": str(outside),
        "parent/not-there-yet": str(outside),
        "etc": "/etc",
        "host": "/",
        "up": "../..",
        "loop": "loop",
        "down/etc": "/",
    }
    for source, target in links.items():
        (place / source.partition("/")[0]).symlink_to(target)
    inner = stage.world.directory(f"{place.name}/inner", mode=0o755)
    stage.world.file(inner / "note", "found")
    (place / "within").symlink_to("inner")
    names = {source: stage.name("linked") for source in links}
    for source, name in names.items():
        stage.apply(name, {"container": {"binds": [f"{place}/{source}:/mnt/x:rw"]}})
    allowed = stage.make(stage.name("linked"), {"container": {"binds": [f"{place}/within:/mnt/x"]}})
    assert stage.read(allowed, "/mnt/x/note") == {"/mnt/x/note": "found"}
    never_ran(stage, *names.values())
    assert not (outside / "not-there-yet").exists()


@attack(
    "a source that is swapped for a link out of the bind root while its sandbox is stopped, and before it starts again",
    stopped_by="everything is looked at again before each start",
)
def test_a_source_that_is_swapped_before_a_start(stage: Stage, outside: Path) -> None:
    place = stage.world.directory(stage.name("swapped"), mode=0o755)
    source = stage.world.directory(f"{place.name}/source", mode=0o755)
    stage.world.file(source / "secret", "what may be seen")
    name = stage.make(stage.name("stopped"), {"container": {"binds": [f"{source}:/mnt/x"]}})
    assert stage.read(name, "/mnt/x/secret") == {"/mnt/x/secret": "what may be seen"}
    stage.sandboxes.kubectl("patch", "sandbox", name, "--type=merge", '-p={"spec":{"state":"Stopped"}}')
    stage.sandboxes.wait(name, "Stopped")
    source.rename(place / "aside")
    source.symlink_to(outside)
    swapped = datetime.now(UTC).isoformat()
    stage.sandboxes.kubectl("patch", "sandbox", name, "--type=merge", '-p={"spec":{"state":"Running"}}')
    never_ran(stage, name, since=swapped)


@attack(
    "a directory below one to which another sandbox writes, so that it may be swapped at any moment: as a bind, as an "
    "agent's workspace, as its skills, as the sandbox root, and by a link that lies there",
    stopped_by="`BindRefused` for as long as that sandbox is there; the very directory may be shared, and what is "
    "mounted over itself wherever its directory is written to",
)
def test_below_what_another_sandbox_writes(stage: Stage) -> None:
    shared = stage.root / "shared"
    below = stage.world.directory(f"shared/{stage.name('below')}")
    planted = f"ln -sfn {stage.root}/tio-claude /workspace/shared/planted"
    assert stage.sh("rain", planted).code == 0
    written = stage.home(stage.name("written"))
    stage.make(stage.name("writer"), {"container": {"binds": [f"{written}:/work:rw"]}})
    found = stage.refuse(
        {
            "bind": {"container": {"binds": [f"{below}:/mnt/x"]}},
            "bind of what is not there": {"container": {"binds": [f"{below}/not/yet:/mnt/x"]}},
            "by another spelling": {
                "container": {"binds": [f"{stage.root}/rain/../shared//{below.name}/.:/mnt/x"]}
            },
            "workspace": {"workspace": {"access": "rw", "agent": {"hostPath": {"path": str(below)}}}},
            "sandbox root": {"workspace": {"volume": {"hostPath": {"path": str(below)}}}},
            "link that it planted": {"container": {"binds": [f"{shared}/planted:/mnt/x"]}},
            "in another's workspace": {"container": {"binds": [f"{stage.root}/rain/diary:/mnt/x"]}},
            "skills": {"workspace": {"access": "rw", "agent": {"hostPath": {"path": str(written)}}}},
        }
    )
    assert {what: one.reason for what, one in found.items()} == dict.fromkeys(found, "BindRefused")
    binds = [f"{shared}:/mnt/x", f"{stage.root}/rain/skills:/mnt/y"]
    allowed = stage.make(stage.name("shared"), {"container": {"binds": binds}})
    assert below.name in str(stage.read(allowed, "/mnt/x")["/mnt/x"])
    assert stage.read(allowed, "/mnt/y/greet.md") == {"/mnt/y/greet.md": "Say hello."}


@attack(
    "a race: a process in a sandbox swaps a directory in the shared one for a link to Tio Claude's and back, while "
    "others are asked for that are to show it",
    stopped_by="such a directory is refused before it is looked up: what is swapped is never a source",
)
def test_swapping_what_is_to_be_bound(stage: Stage) -> None:
    name = stage.name("race")
    stage.world.directory(f"shared/{name}")
    swap = f"""
        cd /workspace/shared; ln -sfn {stage.root}/tio-claude link-{name}; touch swapping
        (while [ -e swapping ]; do mv {name} aside-{name}; mv link-{name} {name}; mv {name} link-{name}; \
mv aside-{name} {name}; done) > /dev/null 2>&1 &"""
    assert stage.sh("rain", swap).code == 0
    try:
        found = stage.refuse(
            {
                str(number): {"container": {"binds": [f"{stage.root}/shared/{name}:/mnt/x"]}}
                for number in range(5)
            }
        )
    finally:
        stage.sh("rain", "rm -f /workspace/shared/swapping")
    assert {one.reason for one in found.values()} == {"BindRefused"}


@attack(
    "a bind of a socket, a FIFO, a device and of nothing at all",
    stopped_by="only directories and files are bound, and nothing is made that is missing",
    on=On.CONTAINER,
)
@ON_CONTAINERS
def test_sources_that_are_no_directories(stage: Stage) -> None:
    place = stage.world.directory(stage.name("odd"), mode=0o755)
    os.mkfifo(place / "fifo")
    os.mknod(place / "device", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(place / "socket"))
    names = {what: stage.name("odd") for what in ("fifo", "device", "socket", "nothing", "nothing/below")}
    for what, name in names.items():
        stage.apply(name, {"container": {"binds": [f"{place}/{what}:/mnt/x"]}})
    never_ran(stage, *names.values())
    assert not (place / "nothing").exists()
