"""Links, and worse, where a workspace is prepared.

Before a sandbox starts somebody more powerful than it copies files: the operator on a Docker host, an init container in
a Pod. An agent with `access: rw` writes where the originals are, and every sandbox where its copy is.
"""

import os
import stat

import pytest

from attacks.register import attack
from attacks.stage import Stage, secret_of
from sandkeeper.config.mounts import SEEDED

pytestmark = pytest.mark.cluster

LARGEST = 2 << 20
HIS = secret_of("tio-claude")


@attack(
    "originals that are a link to another agent's file, a hard link, a FIFO, a device, too large, or another user's; "
    "the same among skills",
    stopped_by="opened without following links, and taken only if it is a plain file with one name, of bounded size, "
    "that the sandbox's user may read itself; the rest is told (`SeedSkipped`), and the sandbox starts",
)
def test_originals_that_are_no_plain_files(stage: Stage) -> None:
    name = stage.name("odd")
    home = stage.home(name)
    (home / "SOUL.md").unlink()
    (home / "SOUL.md").symlink_to(stage.root / "tio-claude" / "SOUL.md")
    os.link(stage.secret("tio-claude"), home / "USER.md")
    os.mkfifo(home / "TOOLS.md")
    os.mknod(home / "IDENTITY.md", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero: it never ends
    (home / "BOOTSTRAP.md").write_bytes(b"x" * (LARGEST + 1))
    stage.world.file(home / "HEARTBEAT.md", "root's own", owner=0).chmod(0o600)
    stage.world.file(home / "AGENTS.md", "x" * LARGEST)
    skills = home / "skills"
    (skills / "link.md").symlink_to(stage.root / "tio-claude" / "SOUL.md")
    (skills / "away").symlink_to(stage.root / "tio-claude")
    os.mkfifo(skills / "fifo.md")
    try:
        stage.sandboxes.apply(stage.claim(name, "copies"))
        stage.sandboxes.wait(name, "Running")
        stage.sandboxes.wait(name, "SeedSkipped", kind="WorkspaceIncomplete")
        listed = stage.sh(name, "cd /workspace; stat -c '%n %F %s %h' *.md").output
        assert listed == f"AGENTS.md regular file {LARGEST} 1\n", "nothing else is copied"
        shown = stage.read(
            name, *(f"/workspace/skills/{path}" for path in ("greet.md", "link.md", "away", "away/MEMORY.md"))
        )
        assert list(shown.values()) == ["Say hello.", None, None, None]
        if stage.is_docker:
            found = stage.sh(name, "find /workspace/skills ! -type f ! -type d").output
            assert found == "", "what is no file is not copied"
    finally:
        (home / "USER.md").unlink()  # or his file would have two names for whoever looks next


@attack(
    "links planted in the copy before a recreate and a wipe: under the names of the seven files, dangling or not, and "
    "in directories below",
    stopped_by="what is there is not copied over, a link included; a wipe removes links, and nothing behind them",
)
def test_links_planted_in_a_copy(stage: Stage) -> None:
    name = stage.name("planter")
    home, victims = stage.home(name), stage.world.directory(f"{name}-victims", mode=0o777)
    for file in ("AGENTS.md", "TOOLS.md", "USER.md"):
        stage.world.file(home / file, f"{file} of the agent's")
    stage.world.file(victims / "kept", "as it was")
    stage.sandboxes.apply(stage.claim(name, "copies"))
    first = stage.sandboxes.wait(name, "Running")["runtime"]["id"]
    planted = f"""
        cd /workspace; rm -f *.md
        ln -s {victims}/made SOUL.md; ln -s {victims}/kept AGENTS.md; ln -s {victims} TOOLS.md
        ln -s ../../../../../../../../{victims}/made USER.md
        mkdir -p deep/er; ln -s {victims} deep/er/link; ln -s {victims}/kept deep/er/file; ln -s / deep/root
        mkdir locked; ln -s {victims} locked/link; chmod 0 locked"""
    assert stage.sh(name, planted).code == 0

    def as_it_was() -> bool:
        return {path.name: path.read_text(encoding="utf-8") for path in victims.iterdir()} == {
            "kept": "as it was"
        }

    stage.sandboxes.annotate(name, recreate="once")
    second = stage.world.replaced(name, first)["runtime"]["id"]
    assert as_it_was()
    assert stage.sh(name, "cd /workspace; find . -maxdepth 1 -type l | sort").output.split() == [
        f"./{file}" for file in ("AGENTS.md", "SOUL.md", "TOOLS.md", "USER.md")
    ]
    stage.sandboxes.annotate(name, wipe="once")
    stage.world.replaced(name, second)
    assert as_it_was()
    fresh = stage.sh(
        name,
        "cd /workspace; find . -path ./shared -prune -o -type l -print; cat AGENTS.md; ls -d deep locked 2>/dev/null",
    ).output
    assert fresh.startswith("AGENTS.md of the agent's")
    assert "deep" not in fresh
    assert "locked" not in fresh


@attack(
    "a link planted where something is to be mounted later, `skills` and a shared directory: to the kernel's files, to "
    "the host's",
    stopped_by="a mount's place that is a link is refused, or is looked up in the sandbox's own root, where nothing is",
)
def test_links_where_something_is_to_be_mounted(stage: Stage) -> None:
    his = stage.root / "tio-claude"
    before = sorted(path.name for path in his.iterdir())
    cases = [(place, target) for place in ("skills", "team") for target in ("/proc/self", "/etc", str(his))]
    names = {case: stage.name("later") for case in cases}
    for name in names.values():
        # At first its directory is one that it writes to, and nothing is mounted in it.
        home = stage.home(name)
        (home / "skills").rename(home / "elsewhere")
        stage.apply(name, {"container": {"binds": [f"{home}:/work:rw"]}, "hotWindowSeconds": 1})
    runtimes = {}
    for (place, target), name in names.items():
        runtimes[name] = stage.sandboxes.wait(name, "Running", timeout=120)["runtime"]["id"]
        assert stage.sh(name, f"cd /work; ln -s {target} {place}").code == 0
    for name in names.values():
        mounted = {
            "workspace": {"access": "rw", "agent": {"hostPath": {"path": f"{stage.root}/{name}"}}},
            "container": {"binds": [f"{stage.root}/shared:/workspace/team:rw"]},
            "hotWindowSeconds": 1,
        }
        stage.sandboxes.apply(stage.sandboxes.policy(name, **mounted))
    for standing in stage.settled(*names.values(), besides=runtimes):
        assert standing.ready == "False", standing
    assert sorted(path.name for path in his.iterdir()) == before
    assert stage.secret("tio-claude").read_text(encoding="utf-8") == HIS


@attack(
    "a race: a process of Rain's swaps each of her seven files for a link to Tio Claude's, for a FIFO and back, "
    "thousands of times, while copies of her workspace are made afresh",
    stopped_by="what is read is the file that was opened and looked at, and never opened through a link",
)
def test_swapping_originals_while_they_are_copied(stage: Stage) -> None:
    name = stage.name("copied")
    swap = f"""
import os, time
os.chdir("/workspace")
names = {list(SEEDED)!r}
for name in names:
    with open(name, "w") as file:
        file.write("I am rain.")
os.mkdir("swaps")
os.symlink({str(stage.secret("tio-claude"))!r}, "swaps/link")
os.mkfifo("swaps/fifo")
swaps = 0
while os.path.lexists("swaps/link"):
    for name in names:
        for other in ("swaps/link", "swaps/fifo"):
            os.rename(name, "swaps/file"); os.rename(other, name)
            time.sleep(0.0001)
            os.rename(name, other); os.rename("swaps/file", name)
            swaps += 1
    if os.path.exists("swaps/stop"):
        os.unlink("swaps/link")
with open("swapped", "w") as file:
    file.write(str(swaps))
"""
    assert stage.sh("rain", "cd /workspace; rm -rf swaps swapped").code == 0
    started = stage.world.python(
        "rain",
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-I', '-c', sys.argv[1]], stdin=-3, stdout=-3, stderr=-3)",
        swap,
    )
    assert started.code == 0, started.output
    try:
        stage.sandboxes.apply(stage.claim(name, "copies", agentId="rain"))
        runtime = stage.sandboxes.wait(name, "Running")["runtime"]["id"]
        for attempt in range(3):
            found = stage.read(name, *(f"/workspace/{each}" for each in SEEDED))
            assert set(found.values()) <= {None, "I am rain."}
            if attempt < 2:
                stage.sandboxes.annotate(name, wipe=f"attempt {attempt}")
                runtime = stage.world.replaced(name, runtime)["runtime"]["id"]
    finally:
        stage.stop("rain", "touch /workspace/swaps/stop", until="/workspace/swapped")
    assert int(stage.sh("rain", "cat /workspace/swapped").output) > 1000
    assert stage.read("rain", "/workspace/SOUL.md") == {"/workspace/SOUL.md": "I am rain."}
