"""A workspace prepared in real directories, whoever meddles with them."""

import ast
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from sandkeeper.inside import prepare

NAMES = ("AGENTS.md", "SOUL.md", "TOOLS.md")
LARGEST = 1000
SECRET = "what nobody may see"  # noqa: S105 - that is a test's

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for other users and mounts")


@contextmanager
def opened(*paths: Path) -> Iterator[list[int]]:
    handles = [os.open(path, prepare.DIRECTORY) for path in paths]
    try:
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def seed(source: Path, target: Path, **options: Any) -> list[str]:
    with opened(source, target) as (there, here):
        return prepare.seed(there, here, NAMES, **{"largest": LARGEST, **options})


def empty(directory: Path) -> None:
    with opened(directory) as (handle,):
        prepare.empty(handle)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent"
    path.mkdir()
    for name in NAMES:
        (path / name).write_text(f"the original {name}")
    return path


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    path = tmp_path / "copy"
    path.mkdir()
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return path


def contents(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


# --- what is copied ---------------------------------------------------------------------------------------------------


def test_what_is_missing_is_copied_and_nothing_else(agent: Path, copy: Path) -> None:
    (agent / "MEMORY.md").write_text("private")
    (agent / "TOOLS.md").unlink()
    (copy / "SOUL.md").write_text("grown since")

    assert seed(agent, copy) == []

    assert contents(copy) == {"AGENTS.md": "the original AGENTS.md", "SOUL.md": "grown since"}


def test_later_edits_of_the_originals_do_not_reach_the_copy(agent: Path, copy: Path) -> None:
    seed(agent, copy)
    (agent / "SOUL.md").write_text("another")

    assert seed(agent, copy) == []

    assert (copy / "SOUL.md").read_text() == "the original SOUL.md"


@pytest.mark.parametrize(("mode", "kept"), [(0o644, 0o644), (0o440, 0o440), (0o6755, 0o755), (0o1600, 0o600)])
def test_a_mode_is_kept_but_for_what_it_would_let_one_become(
    agent: Path, copy: Path, mode: int, kept: int
) -> None:
    (agent / "SOUL.md").chmod(mode)

    assert seed(agent, copy) == []

    assert stat.S_IMODE((copy / "SOUL.md").stat().st_mode) == kept


@as_root
def test_a_copy_belongs_to_the_sandboxs_user(agent: Path, copy: Path) -> None:
    assert seed(agent, copy, owner=(1234, 5678)) == []

    assert {(path.stat().st_uid, path.stat().st_gid) for path in copy.iterdir()} == {(1234, 5678)}


@as_root
@pytest.mark.parametrize(
    ("owner", "mode", "reader", "is_copied"),
    [
        ((1000, 1000), 0o600, (1000, 1000), True),
        ((0, 0), 0o600, (1000, 1000), False),
        ((0, 1000), 0o640, (1000, 1000), True),
        ((0, 1000), 0o604, (1000, 1000), False),
        ((1000, 0), 0o044, (1000, 1000), False),
        ((0, 0), 0o604, (1000, 1000), True),
        ((5, 5), 0o600, (0, 0), True),
    ],
)
def test_nobody_is_given_what_they_could_not_read(
    agent: Path, copy: Path, owner: tuple[int, int], mode: int, reader: tuple[int, int], *, is_copied: bool
) -> None:
    """A sandbox that writes to its agent's workspace can move a file of root's there, though not read it."""
    os.chown(agent / "SOUL.md", *owner)
    (agent / "SOUL.md").chmod(mode)

    complaints = seed(agent, copy, owner=reader)

    assert (copy / "SOUL.md").exists() is is_copied
    assert complaints == ([] if is_copied else ["SOUL.md is not copied: the sandbox's user may not read it"])


@pytest.mark.parametrize(("size", "is_copied"), [(0, True), (LARGEST, True), (LARGEST + 1, False)])
def test_a_file_has_a_largest_size(agent: Path, copy: Path, size: int, *, is_copied: bool) -> None:
    (agent / "SOUL.md").write_bytes(b"x" * size)

    complaints = seed(agent, copy)

    assert sorted(contents(copy)) == sorted({*NAMES} - (set() if is_copied else {"SOUL.md"}))
    assert complaints == ([] if is_copied else ["SOUL.md is not copied: it has more than 1000 bytes"])


def test_a_file_that_grows_while_it_is_read_is_not_followed_for_ever(agent: Path, copy: Path) -> None:
    """A device that never ends stands for a file that somebody appends to; nothing of it is left."""
    endless = os.open("/dev/zero", os.O_RDONLY)
    with opened(copy) as (here,), pytest.raises(prepare.LeftOut, match="more than 1000 bytes"):
        prepare.copy(endless, here, most=LARGEST, finish=lambda _: None)
    os.close(endless)

    assert contents(copy) == {}


# --- who meddles with the source --------------------------------------------------------------------------------------


def plant_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def plant_relative_link(path: Path, secret: Path) -> None:
    path.symlink_to(os.path.relpath(secret, path.parent))


def plant_hard_link(path: Path, secret: Path) -> None:
    path.hardlink_to(secret)


def plant_directory(path: Path, secret: Path) -> None:
    path.mkdir()
    (path / "inside").write_text(secret.read_text())


def plant_pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def plant_socket(path: Path, secret: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def plant_device(path: Path, secret: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (plant_link, "it is a link"),
        (plant_relative_link, "it is a link"),
        (plant_hard_link, "it is a hard link: the same file has another name, which may be anywhere"),
        (plant_directory, "it is no plain file"),
        (plant_pipe, "it is no plain file"),
        (plant_socket, "no such device or address"),
        pytest.param(plant_device, "it is no plain file", marks=as_root),
    ],
)
def test_what_is_no_plain_file_at_the_source(
    agent: Path, copy: Path, secret: Path, plant: Any, said: str
) -> None:
    (agent / "SOUL.md").unlink()
    plant(agent / "SOUL.md", secret)

    assert seed(agent, copy) == [f"SOUL.md is not copied: {said}"]

    assert sorted(contents(copy)) == ["AGENTS.md", "TOOLS.md"]


def test_a_file_that_is_swapped_for_a_link_all_the_time(agent: Path, copy: Path, secret: Path) -> None:
    """Either the file is copied or nothing is, at whatever moment the link appears."""
    stop, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        spare = agent / "spare"
        while not stop.is_set():
            for make in (lambda: spare.symlink_to(secret), lambda: spare.write_text("fine")):
                make()
                spare.replace(agent / "SOUL.md")
            swaps += 1

    swapping = threading.Thread(target=swap)
    swapping.start()
    outcomes = set()
    try:
        for _ in range(1500):
            seed(agent, copy)
            found = copy / "SOUL.md"
            outcomes.add(found.read_text() if found.exists() else None)
            found.unlink(missing_ok=True)
    finally:
        stop.set()
        swapping.join()

    assert swaps > 10
    assert {"fine", None} <= outcomes <= {"fine", None, "", "the original SOUL.md"}


def test_the_files_of_a_config_map_are_links_and_are_followed(tmp_path: Path, copy: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "..2026_01").mkdir(parents=True)
    (volume / "..data").symlink_to("..2026_01")
    (volume / "..2026_01/SOUL.md").write_text("from the ConfigMap")
    (volume / "SOUL.md").symlink_to("..data/SOUL.md")

    assert seed(volume, copy) == ["SOUL.md is not copied: it is a link"]
    assert seed(volume, copy, follow_links=True) == []

    assert contents(copy) == {"SOUL.md": "from the ConfigMap"}
    assert not (copy / "SOUL.md").is_symlink()


# --- who meddles with the target --------------------------------------------------------------------------------------


@pytest.mark.parametrize("leads", ["nowhere", "secret", "self"])
def test_a_link_at_the_target_counts_as_there(
    agent: Path, copy: Path, secret: Path, tmp_path: Path, leads: str
) -> None:
    to = {"nowhere": tmp_path / "made", "secret": secret, "self": copy / "SOUL.md"}[leads]
    (copy / "SOUL.md").symlink_to(to)

    assert seed(agent, copy) == []

    assert (copy / "SOUL.md").is_symlink()
    assert not (tmp_path / "made").exists()
    assert secret.read_text() == SECRET


def test_a_link_that_comes_and_goes_at_the_target_is_never_written_through(
    agent: Path, copy: Path, secret: Path, tmp_path: Path
) -> None:
    stop = threading.Event()

    def plant() -> None:
        while not stop.is_set():
            for to in (secret, tmp_path / "made"):
                (copy / "SOUL.md").unlink(missing_ok=True)
                try:
                    (copy / "SOUL.md").symlink_to(to)
                except FileExistsError:
                    continue

    planting = threading.Thread(target=plant)
    planting.start()
    try:
        for _ in range(1500):
            assert seed(agent, copy) == []
            (copy / "AGENTS.md").unlink()
    finally:
        stop.set()
        planting.join()

    assert secret.read_text() == SECRET
    assert not (tmp_path / "made").exists()
    assert not list(copy.glob(".sandkeeper-*"))


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_appears_while_a_file_is_copied_is_kept(
    agent: Path, copy: Path, secret: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    make_copy = prepare.copy

    def plant_meanwhile(*arguments: Any, **options: Any) -> str:
        made = make_copy(*arguments, **options)
        if kind == "file":
            (copy / "SOUL.md").write_text("mine")
        else:
            (copy / "SOUL.md").symlink_to(secret)
        return made

    monkeypatch.setattr(prepare, "copy", plant_meanwhile)
    with opened(agent, copy) as (there, here):
        assert prepare.seed(there, here, ["SOUL.md"], largest=LARGEST) == []

    assert (copy / "SOUL.md").read_text() == ("mine" if kind == "file" else SECRET)
    assert (copy / "SOUL.md").is_symlink() is (kind == "link")
    assert secret.read_text() == SECRET
    assert len(list(copy.iterdir())) == 1


def test_where_nothing_can_be_written_each_file_is_complained_of(agent: Path, copy: Path) -> None:
    shutil.rmtree(copy)
    copy.mkdir()
    with opened(agent, copy) as (there, here):
        copy.rmdir()  # what is opened is there no longer, which keeps root from writing too

        complaints = prepare.seed(there, here, NAMES, largest=LARGEST)

    assert complaints == [f"{name} is not copied: no such file or directory" for name in NAMES]


# --- emptying ---------------------------------------------------------------------------------------------------------


def test_all_that_is_in_a_directory_is_removed_and_nothing_else(
    tmp_path: Path, copy: Path, secret: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (copy / "a/b/c").mkdir(parents=True)
    (copy / "a/b/c/file").write_text("gone")
    (copy / "a/link").symlink_to(outside)
    (copy / "link").symlink_to(outside)
    (copy / "dangling").symlink_to(tmp_path / "nowhere")
    (copy / "hard").hardlink_to(secret)
    os.mkfifo(copy / "a/pipe")
    (Path(os.fsdecode(os.fsencode(copy) + b"/\xff\n"))).mkdir()
    (copy / ".hidden").write_text("gone")

    empty(copy)

    assert list(copy.iterdir()) == []
    assert contents(outside) == {"kept": "kept"}
    assert secret.read_text() == SECRET


def test_no_depth_is_too_great(copy: Path) -> None:
    """Deeper than Python calls itself, than there are descriptors, and than a path can be long."""
    here = os.open(copy, prepare.DIRECTORY)
    for _ in range(3000):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, prepare.DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    empty(copy)

    assert list(copy.iterdir()) == []


def mounts_below(directory: Path) -> list[str]:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [place for place in mounts if place.startswith(f"{directory}/")]


@as_root
def test_a_mount_is_not_emptied(tmp_path: Path, copy: Path) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir(mode=0o750)
    (mounted / "kept").write_text("kept")
    for place in (copy / "top", copy / "a/b"):  # of the same file system
        place.mkdir(parents=True)
        subprocess.run(["mount", "--bind", mounted, place], check=True)
        try:
            with pytest.raises(OSError, match="busy"):
                empty(copy)
        finally:
            subprocess.run(["umount", *mounts_below(copy)], check=True)
        assert contents(mounted) == {"kept": "kept"}
        assert stat.S_IMODE(mounted.stat().st_mode) == 0o750
        empty(copy)
        assert list(copy.iterdir()) == []


def test_a_directory_that_is_swapped_for_a_link_is_not_left_through_it(tmp_path: Path, copy: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    kept = [outside / str(number) for number in range(50)]
    for path in kept:
        path.write_text("kept")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            try:
                (copy / "d/e").mkdir(parents=True, exist_ok=True)
                (copy / "d/e").rename(copy / "aside")
                (copy / "d/e").symlink_to(outside)
            except OSError:
                continue

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(500):
            try:
                empty(copy)
            except OSError:  # what is made anew all the time cannot be emptied for certain
                continue
    finally:
        stop.set()
        swapping.join()

    assert all(path.exists() for path in kept)


# --- as a program -----------------------------------------------------------------------------------------------------

TEXT = Path(prepare.__file__).read_text()


def run(order: dict[str, Any]) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", TEXT, json.dumps(order)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stderr)


def order(agent: Path, copy: Path, **more: Any) -> dict[str, Any]:
    return {"source": str(agent), "target": str(copy), "names": NAMES, "largest": LARGEST, **more}


def test_its_text_is_a_program_by_itself(agent: Path, copy: Path) -> None:
    (agent / "SOUL.md").unlink()
    (agent / "SOUL.md").symlink_to("AGENTS.md")

    assert run(order(agent, copy)) == (0, ["SOUL.md is not copied: it is a link"])

    assert sorted(contents(copy)) == ["AGENTS.md", "TOOLS.md"]


def test_it_is_written_in_the_oldest_python_that_it_promises() -> None:
    ast.parse(TEXT, feature_version=(3, 9))


def test_wiped_it_begins_afresh(agent: Path, copy: Path) -> None:
    (copy / "SOUL.md").write_text("grown since")
    (copy / "work").mkdir()
    (copy / "work/file").write_text("gone")

    assert run(order(agent, copy, wipe=True)) == (0, [])

    assert contents(copy) == {name: f"the original {name}" for name in NAMES}


def test_a_source_that_is_missing_keeps_nobody_from_working(agent: Path, copy: Path) -> None:
    agent.rename(agent.with_name("elsewhere"))

    assert run(order(agent, copy)) == (
        0,
        ["nothing is copied, the agent's workspace cannot be opened: no such file or directory"],
    )


def test_a_target_that_is_missing_does(agent: Path, copy: Path) -> None:
    copy.rmdir()

    assert run(order(agent, copy)) == (1, ["the workspace cannot be opened: no such file or directory"])


def test_places_of_mounts_are_made_where_there_are_none(copy: Path) -> None:
    (copy / "skills").mkdir()
    (copy / "skills/kept").write_text("")
    wanted = {"target": str(copy), "directories": ["skills", "shared", "a/b/c"]}

    for _ in range(2):
        assert run(wanted) == (0, [])
        assert (copy / "skills/kept").exists()
        assert (copy / "shared").is_dir()
        assert (copy / "a/b/c").is_dir()


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "parent"])
def test_a_place_of_a_mount_that_is_no_real_directory(copy: Path, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    if kind == "file":
        (copy / "shared").write_text("")
    elif kind == "parent":
        (copy / "shared").symlink_to(outside)
    else:
        (copy / "shared").symlink_to(outside if kind == "link" else outside / "nowhere")
    path = "shared/inner" if kind == "parent" else "shared"

    said = "shared in the workspace is a link or a file; make it a directory"
    assert run({"target": str(copy), "directories": [path]}) == (1, [said])
    assert list(outside.iterdir()) == []


def test_nothing_is_made_of_skills_where_there_are_none(agent: Path) -> None:
    assert run({"skills_in": str(agent)}) == (0, [])
    assert not (agent / "skills").exists()
    (agent / "skills").mkdir()
    assert run({"skills_in": str(agent)}) == (0, [])


@pytest.mark.parametrize("kind", ["link", "dangling", "file"])
def test_skills_that_are_no_real_directory(agent: Path, copy: Path, kind: str) -> None:
    if kind == "file":
        (agent / "skills").write_text("")
    else:
        (agent / "skills").symlink_to(copy if kind == "link" else "nowhere")

    code, (said,) = run({"skills_in": str(agent)})

    assert code == 1
    assert "make it a directory" in said
    assert not (agent / "nowhere").exists()


def test_what_it_says_fits_where_kubernetes_keeps_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "_TERMINATION_LOG", str(tmp_path / "log"))
    names = [f"file-{number}" for number in range(200)]
    source = tmp_path / "source"
    source.mkdir()
    for name in names:
        (source / name).mkdir()

    code = prepare.main([json.dumps(order(source, tmp_path, names=names))])

    told = (tmp_path / "log").read_text()
    assert (code, 4000 < len(told) <= 4096) == (0, True)
    assert json.loads(told)[0] == "file-0 is not copied: it is no plain file"
    assert json.loads(told)[-1] == "and more"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("text", ['"', "'", "\"'", "\\", "\n", "\u00e4", "\U0001f600", "\udcff"])
def test_whatever_it_says_is_json(text: str) -> None:
    (said,) = json.loads(prepare._write_json([f"a{text}b is not copied"]))

    assert said.startswith("a")
    assert said.endswith("b is not copied")
    assert "\n" not in said


# --- in a container: the smallest Python of Debian --------------------------------------------------------------------


def run_in_container(
    client: docker.DockerClient, script: str, order: dict[str, Any], *, user: str = "0", **options: Any
) -> list[str]:
    """Run the script, which finds the program as $0 and its argument as $1; return what it says."""
    container = client.containers.run(
        "debian:bookworm-slim",
        ["/bin/sh", "-ec", f"exec 2>&1; {script}", TEXT, json.dumps(order)],
        network_mode="none",
        user=user,
        detach=True,
        **options,
    )
    try:
        code = container.wait()["StatusCode"]
        said: list[str] = container.logs().decode().splitlines()
    finally:
        container.remove(force=True)
    assert code == 0, said
    return said


@pytest.mark.engine
def test_a_file_system_without_hard_links_and_modes(docker_client: docker.DockerClient) -> None:
    """As many network file systems are: the kernel is told to say what it says there."""
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["link", "linkat", "fchmod"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
    }
    script = """
        mkdir /agent /copy
        echo the original > /agent/AGENTS.md
        echo the original > /agent/SOUL.md
        echo grown since > /copy/SOUL.md
        python3 -I -c "$0" "$1"; echo
        cd /copy
        if ln AGENTS.md other 2>/dev/null; then echo linked; fi
        grep . $(ls -A)
        """

    said = run_in_container(
        docker_client,
        script,
        order(Path("/agent"), Path("/copy"), follow_links=False),
        security_opt=[f"seccomp={json.dumps(profile)}"],
    )

    assert said == ["[]", "AGENTS.md:the original", "SOUL.md:grown since"]


@pytest.mark.engine
def test_a_user_wipes_what_is_theirs_whatever_its_mode(
    docker_client: docker.DockerClient, tmp_path: Path
) -> None:
    """As a cache of modules is: read-only, for everybody. Root has what a volume begins with, and an empty place."""
    (tmp_path / "copy/lost+found").mkdir(parents=True, mode=0o700)
    (tmp_path / "copy/shared").mkdir()
    (tmp_path / "copy/cache/module/deep").mkdir(parents=True)
    (tmp_path / "copy/cache/module/deep/file").write_text("gone")
    for path in [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]:
        if path.name not in {"lost+found", "shared"}:
            os.chown(path, 1234, 1234)
    for name, mode in (("module/deep", 0o000), ("module", 0o555), (".", 0o555)):
        (tmp_path / "copy/cache" / name).chmod(mode)

    said = run_in_container(
        docker_client,
        'python3 -I -c "$0" "$1"; echo; ls -A /copy',
        {"target": "/copy", "wipe": True},
        user="1234:1234",
        cap_drop=["ALL"],
        volumes=[f"{tmp_path}/copy:/copy"],
    )

    assert said == ["[]", "lost+found"]


@pytest.mark.engine
def test_what_is_another_users_cannot_be_wiped_and_that_is_told(
    docker_client: docker.DockerClient, tmp_path: Path
) -> None:
    (tmp_path / "copy/roots").mkdir(parents=True, mode=0o755)
    (tmp_path / "copy/roots/file").write_text("kept")
    os.chown(tmp_path / "copy", 1234, 1234)

    said = run_in_container(
        docker_client,
        'python3 -I -c "$0" "$1" && echo it can || true',
        {"target": "/copy", "wipe": True},
        user="1234:1234",
        cap_drop=["ALL"],
        volumes=[f"{tmp_path}/copy:/copy"],
    )

    assert said == ['["the workspace cannot be emptied: permission denied"]']
    assert [path.read_text() for path in tmp_path.rglob("file")] == ["kept"]
