"""Reading another agent's files.

Rain is under the influence of what she read, and wants to know what Tio Claude keeps to himself. Both sandboxes run on
the same host, their directories are side by side on one file system, and one directory they share.
"""

import pytest

from attacks.register import attack
from attacks.stage import DONE, Stage, secret_of

pytestmark = pytest.mark.cluster

HERS, HIS = secret_of("rain"), secret_of("tio-claude")


def nothing_of_his(stage: Stage, *paths: str) -> None:
    """Make sure that Rain reads none of these, while each of the two reads what is their own."""
    said = stage.read("rain", *paths, "/workspace/MEMORY.md")
    assert said.pop("/workspace/MEMORY.md") == HERS
    assert {path: found for path, found in said.items() if found is not None} == {}
    assert stage.read("tio-claude", "/workspace/MEMORY.md")["/workspace/MEMORY.md"] == HIS


@attack(
    "his file by its path on the host, from `/workspace` by `..`, and below `/proc/self/root` and `/proc/1/root`",
    stopped_by="his directory is not mounted in her sandbox; `..` of a mount's root leads into the image",
)
def test_by_its_path(stage: Stage) -> None:
    path = stage.secret("tio-claude")
    nothing_of_his(
        stage,
        str(path),
        "/workspace/../tio-claude/MEMORY.md",
        "/workspace/shared/../../tio-claude/MEMORY.md",
        f"/workspace/..{path}",
        f"/workspace/{'../' * 40}{path}",
        "../tio-claude/MEMORY.md",
        *(f"/proc/{process}/root{path}" for process in ("self", "1", "thread-self")),
        *(f"/proc/{process}/cwd/../tio-claude/MEMORY.md" for process in ("self", "1")),
    )


@attack(
    "symbolic links to his file and to all directories above it, in her workspace and in the shared directory",
    stopped_by="a link is text, and is followed in the sandbox of whoever reads it",
)
def test_by_links(stage: Stage) -> None:
    path = stage.secret("tio-claude")
    made = f"""
        rm -rf /workspace/links /workspace/shared/links; mkdir /workspace/links /workspace/shared/links
        for place in /workspace/links /workspace/shared/links; do
            ln -s {path} $place/file; ln -s {path.parent} $place/home; ln -s / $place/root; ln -s ../.. $place/up
            ln -s /proc/1/root $place/proc; ln -s /workspace/MEMORY.md $place/memory
        done"""
    assert stage.sh("rain", made).code == 0
    for place in ("/workspace/links", "/workspace/shared/links"):
        nothing_of_his(
            stage,
            *(f"{place}/{link}" for link in ("file", "home", f"root{path}", "up/tio-claude", f"proc{path}")),
        )
    # His own file is what he finds behind the same link: it tells her nothing.
    found = stage.read("tio-claude", "/workspace/shared/links/memory", "/workspace/shared/links/file")
    assert list(found.values()) == [HIS, None]


@attack(
    "hard links from the shared directory into a workspace and back, by name and by an open file's `/proc/self/fd`",
    stopped_by="each directory is a mount of its own, and no link leads from one mount to another (`EXDEV`)",
)
def test_by_hard_links(stage: Stage) -> None:
    within, path = "os.link('/workspace/linked', '/workspace/linked-2')", stage.secret("tio-claude")
    assert stage.sh("rain", "cd /workspace; rm -f linked*; echo mine | tee linked > shared/linked").code == 0
    said = stage.attempt(
        "rain",
        "os.link('/workspace/shared/linked', '/workspace/theirs')",
        "os.link('/workspace/linked', '/workspace/shared/theirs')",
        "os.link(fd('/workspace/linked'), '/workspace/shared/theirs')",
        "os.rename('/workspace/shared/linked', '/workspace/theirs')",
        f"os.link({str(path)!r}, '/workspace/theirs')",
        within,
    )
    assert said.pop(within) == DONE
    assert list(said.values()) == ["EXDEV"] * 4 + ["ENOENT"]


@attack(
    "root, working directory, open files, environment and command line of every process in `/proc`",
    stopped_by="a process namespace for each sandbox: none of the processes is his, the host's or the operator's",
)
def test_by_other_processes(stage: Stage) -> None:
    path = stage.secret("tio-claude")
    assert stage.sh("tio-claude", "tail -f MEMORY.md > /dev/null 2>&1 &").code == 0
    walk = f"""
        cd /proc; for each in [0-9]*; do
            cat $each/root{path} $each/cwd/../tio-claude/MEMORY.md $each/cwd/MEMORY.md 2>/dev/null
            tr '\\0' ' ' < $each/cmdline; tr '\\0' ' ' < $each/environ 2>/dev/null
            for one in $each/fd/*; do [ -f $one ] && head -c 4096 $one; done 2>/dev/null
        done"""
    hers, his = (stage.sh(agent, walk).output for agent in ("rain", "tio-claude"))
    assert "tail -f MEMORY.md" in his
    assert HIS in his, "it does find what is there"
    assert HERS in hers
    assert HIS not in hers
    for process in ("tail -f MEMORY.md", "containerd", "dockerd", "kubelet", "-m sandkeeper"):
        assert process not in hers


@attack(
    "his secret anywhere: all files of her sandbox are searched, and its table of mounts",
    stopped_by="nothing of his is mounted, and the table of mounts names nothing of his",
)
def test_anywhere(stage: Stage) -> None:
    search = "grep -rsl --exclude-dir=proc --exclude-dir=sys 'knows$' / 2>/dev/null | sort"
    assert "/workspace/MEMORY.md\n" in stage.sh("rain", search.replace("knows$", "knows")).output
    assert HIS not in stage.sh("rain", "grep -rsh --exclude-dir=proc --exclude-dir=sys 'knows' /").output
    assert "tio-claude" not in stage.sh("rain", "cat /proc/self/mountinfo").output


@attack(
    "reading through a copy: Cora's workspace and Reed's `/agent`, from Rain's sandbox and from each other's",
    stopped_by="a directory of its own for each runtime in the sandbox root; only one's own is mounted",
)
def test_copies_of_others(stage: Stage) -> None:
    directories = [path for path in (stage.root / "copies").rglob("SOUL.md") if path.is_file()]
    assert {path.read_text(encoding="utf-8") for path in directories} >= {"I am cora.", "I am reed."}
    tried = [
        *map(str, directories),
        str(stage.root / "copies"),
        "/workspace/../copies",
        str(stage.secret("reed")),
        str(stage.secret("cora")),
    ]
    for agent in ("rain", "cora", "reed"):
        assert {path: found for path, found in stage.read(agent, *tried).items() if found is not None} == {}
    assert stage.read("reed", "/agent/MEMORY.md") == {"/agent/MEMORY.md": secret_of("reed")}
    assert stage.read("cora", "/workspace/SOUL.md") == {"/workspace/SOUL.md": "I am cora."}
