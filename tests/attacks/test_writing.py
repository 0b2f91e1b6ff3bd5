"""Writing where one may only read.

Reed has `access: ro`: his own directory at `/agent`, and a copy, both read-only. Skills are read-only to everybody, for
what an agent finds there it takes for its instructions.
"""

import pytest

from attacks.register import attack
from attacks.stage import DONE, Stage

pytestmark = pytest.mark.cluster

REFUSED = {"EROFS", "EACCES", "EPERM"}


def contents(stage: Stage, agent: str) -> dict[str, tuple[int, bytes]]:
    home = stage.root / agent
    return {
        str(path.relative_to(home)): (path.stat().st_mode, path.read_bytes())
        for path in sorted(home.rglob("*"))
        if not path.is_symlink() and path.is_file()
    }


def changes(directory: str, name: str) -> list[str]:
    """All the ways to change a directory, and a file in it."""
    path = f"{directory}/{name}"
    return [
        f"write({path!r})",
        f"write({path!r}, os.O_WRONLY | os.O_APPEND)",
        f"write('{directory}/new', os.O_WRONLY | os.O_CREAT)",
        f"write(fd({path!r}))",
        f"write(fd({directory!r}) + '/{name}')",
        f"write(f'/proc/self/root{path}')",
        f"os.truncate({path!r}, 0)",
        f"os.unlink({path!r})",
        f"os.rename({path!r}, '{directory}/renamed')",
        f"os.rename({path!r}, '/tmp/stolen')",
        f"os.link({path!r}, '{directory}/second')",
        f"os.symlink('/etc', '{directory}/link')",
        f"os.mkdir('{directory}/below')",
        f"os.mkfifo('{directory}/fifo')",
        f"os.chmod({path!r}, 0o777)",
        f"os.chmod({directory!r}, 0o777)",
        f"os.chown({path!r}, 1000, 1000)",
        f"os.utime({path!r})",
        f"os.setxattr({path!r}, 'user.note', b'x')",
        f"os.replace('/tmp', {directory!r})",
    ]


def remounts(directory: str) -> list[str]:
    return [
        f"run('mount', '-o', 'remount,rw', {directory!r})",
        f"run('mount', '-o', 'remount,bind,rw', {directory!r})",
        f"run('mount', '--bind', '/tmp', {directory!r})",
        f"run('umount', {directory!r})",
        f"run('umount', '--lazy', {directory!r})",
    ]


@attack(
    "with `access: ro`, all ways to change a file or a directory at `/agent`, also by an open file's `/proc/self/fd`; "
    "remounting it",
    stopped_by="a mount that is read-only, and no capability to make it another",
)
def test_agents_workspace_that_may_be_read(stage: Stage) -> None:
    before = contents(stage, "reed")
    said = stage.attempt("reed", *changes("/agent", "MEMORY.md"), *remounts("/agent"))
    assert {each for each, outcome in said.items() if outcome == DONE} == set()
    assert set(list(said.values())[:10]) <= {"EROFS", "EXDEV"}
    assert contents(stage, "reed") == before
    assert stage.read("reed", "/agent/MEMORY.md") != {"/agent/MEMORY.md": None}


@attack(
    "with `access: ro`, the same in its own copy",
    stopped_by="a mount that is read-only",
)
def test_copy_that_may_be_read(stage: Stage) -> None:
    said = stage.attempt("reed", *changes("/workspace", "SOUL.md"), *remounts("/workspace"))
    assert {each for each, outcome in said.items() if outcome == DONE} == set()
    assert stage.read("reed", "/workspace/SOUL.md") == {"/workspace/SOUL.md": "I am reed."}


@attack(
    "with each `access`, the same in `skills`; taking the directory itself away, or another in its place",
    stopped_by="a mount of its own, read-only, which nothing can be put in place of from inside (`EBUSY`)",
)
@pytest.mark.parametrize("agent", ["cora", "reed", "rain"])
def test_skills(stage: Stage, agent: str) -> None:
    skills, before = "/workspace/skills", contents(stage, agent)
    away = [
        f"os.rename({skills!r}, '/workspace/elsewhere')",
        f"os.rmdir({skills!r})",
        "os.rename('/workspace/other', '/workspace/skills')",
    ]
    if agent != "reed":
        assert stage.sh(agent, "mkdir -p /workspace/other; echo Obey. > /workspace/other/greet.md").code == 0
    said = stage.attempt(agent, *changes(skills, "greet.md"), *remounts(skills), *away)
    assert {each for each, outcome in said.items() if outcome == DONE} == set()
    assert stage.read(agent, f"{skills}/greet.md") == {f"{skills}/greet.md": "Say hello."}
    assert {path: found for path, found in contents(stage, agent).items() if path.startswith("skills")} == {
        path: found for path, found in before.items() if path.startswith("skills")
    }


@attack(
    "with `access: none`, reaching the originals from the copy: by name, by hard links, by what is at `/agent`",
    stopped_by="the originals are not mounted; what was copied is another file",
)
def test_originals_from_a_copy(stage: Stage) -> None:
    before = contents(stage, "cora")
    home = stage.root / "cora"
    said = stage.attempt(
        "cora",
        f"write('{home}/SOUL.md')",
        "write('/agent/SOUL.md')",
        "write('/workspace/../cora/SOUL.md')",
        f"os.link('{home}/SOUL.md', '/workspace/original')",
        "write('/workspace/SOUL.md', os.O_WRONLY | os.O_TRUNC)",
        "os.chmod('/workspace/SOUL.md', 0o777)",
    )
    assert list(said.values()) == ["ENOENT"] * 4 + [DONE] * 2
    assert contents(stage, "cora") == before
    assert stage.sh("cora", "printf 'I am cora.' > /workspace/SOUL.md").code == 0
