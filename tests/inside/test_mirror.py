"""Skills mirrored between real directories, whoever meddles with the source."""

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandkeeper.inside.mirror import Bounds, mirror
from sandkeeper.inside.prepare import DIRECTORY

ROOMY = Bounds(entries=100, bytes=10_000, depth=4)
SECRET = "what nobody may see"  # noqa: S105 - that is a test's


def run(source: Path, target: Path, bounds: Bounds = ROOMY, **options: Any) -> list[str]:
    there, here = os.open(source, DIRECTORY), os.open(target, DIRECTORY)
    try:
        return mirror(there, here, bounds=bounds, **options)
    finally:
        os.close(there)
        os.close(here)


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    path = tmp_path / "agent/skills"
    (path / "mail/lib").mkdir(parents=True)
    (path / "mail/SKILL.md").write_text("write mails")
    (path / "mail/lib/send").write_text("#!/bin/sh")
    (path / "mail/lib/send").chmod(0o750)
    (path / "README").write_text("")
    return path


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    path = tmp_path / "shown"
    path.mkdir()
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return path


def tree(directory: Path) -> dict[str, str | None]:
    """Every path below, with its text; None: a directory."""
    return {
        str(path.relative_to(directory)): None if path.is_dir() else path.read_text()
        for path in directory.rglob("*")
    }


WHOLE = {
    "mail": None,
    "mail/lib": None,
    "mail/SKILL.md": "write mails",
    "mail/lib/send": "#!/bin/sh",
    "README": "",
}


def test_everything_is_copied_for_everybody_to_read(skills: Path, shown: Path) -> None:
    (skills / "mail").chmod(0o700)
    (skills / "README").chmod(0o600)

    assert run(skills, shown) == []

    assert tree(shown) == WHOLE
    modes = {str(path.relative_to(shown)): stat.S_IMODE(path.stat().st_mode) for path in shown.rglob("*")}
    assert modes == {
        "mail": 0o755,
        "mail/lib": 0o755,
        "mail/SKILL.md": 0o644,
        "mail/lib/send": 0o755,
        "README": 0o644,
    }


def test_what_is_as_it_was_is_not_touched(skills: Path, shown: Path) -> None:
    run(skills, shown)
    before = {
        path: (path.stat().st_ino, path.stat().st_ctime_ns) for path in shown.rglob("*") if path.is_file()
    }
    (skills / "mail/SKILL.md").write_text("write letters")

    assert run(skills, shown) == []

    after = {path: (path.stat().st_ino, path.stat().st_ctime_ns) for path in before}
    assert {path.name for path in before if before[path] != after[path]} == {"SKILL.md"}
    assert (shown / "mail/SKILL.md").read_text() == "write letters"


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("letters, 1"),
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: path.chmod(0o755),
    ],
    ids=["size", "time", "mode"],
)
def test_what_changed_in_any_way_is_copied_again(
    skills: Path, shown: Path, change: Callable[[Path], Any]
) -> None:
    run(skills, shown)
    change(skills / "mail/SKILL.md")

    run(skills, shown)

    original, copy = (skills / "mail/SKILL.md").stat(), (shown / "mail/SKILL.md").stat()
    assert (copy.st_mode, copy.st_size, copy.st_mtime_ns) == (
        original.st_mode,
        original.st_size,
        original.st_mtime_ns,
    )


def test_what_is_gone_at_the_source_goes(skills: Path, shown: Path) -> None:
    run(skills, shown)
    (shown / "planted").mkdir()
    (shown / ".sandkeeper-left").write_text("by a crash")
    (skills / "mail/SKILL.md").unlink()
    (skills / "README").unlink()

    assert run(skills, shown) == []

    assert tree(shown) == {"mail": None, "mail/lib": None, "mail/lib/send": "#!/bin/sh"}


def test_a_file_takes_the_place_of_a_directory_and_the_other_way_round(skills: Path, shown: Path) -> None:
    run(skills, shown)
    (skills / "README").unlink()
    (skills / "README").mkdir()
    (skills / "README/inside").write_text("1")
    (skills / "mail").rename(skills / "aside")
    (skills / "mail").write_text("2")

    assert run(skills, shown) == []

    assert tree(shown) == tree(skills)


def test_what_is_shown_changes_as_a_whole(skills: Path, shown: Path) -> None:
    """Whoever reads while it is brought up to date sees the former text or the next."""
    texts = {"a" * 5000, "b" * 5001}
    path, seen, stop = shown / "README", set(), threading.Event()
    (skills / "README").write_text("a" * 5000)
    run(skills, shown)

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_text())

    reading = threading.Thread(target=read)
    reading.start()
    try:
        for _ in range(200):
            for text in sorted(texts):
                (skills / "README").write_text(text)
                assert run(skills, shown) == []
    finally:
        stop.set()
        reading.join()

    assert seen == texts


@pytest.mark.parametrize("name", [b"\xff\xfe", b"new\nline", b"-rf *", b"'\"$(id)`", "ä€😀".encode()])
def test_names_are_any_bytes(skills: Path, shown: Path, name: bytes) -> None:
    path = os.fsdecode(name)
    (skills / path).mkdir()
    (skills / path / path).write_text("fine")

    assert run(skills, shown) == []
    assert (shown / path / path).read_text() == "fine"

    (skills / path / path).unlink()
    (skills / path / path).symlink_to("x")
    (said,) = run(skills, shown)
    assert said.isprintable()
    assert said.endswith(" is not copied: it is a link")


# --- what is left out -------------------------------------------------------------------------------------------------


def plant_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def plant_link_to_directory(path: Path, secret: Path) -> None:
    path.symlink_to(secret.parent)


def plant_hard_link(path: Path, secret: Path) -> None:
    path.hardlink_to(secret)


def plant_pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def plant_socket(path: Path, secret: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (plant_link, "it is a link"),
        (plant_link_to_directory, "it is a link"),
        (plant_hard_link, "it is a hard link: the same file has another name, which may be anywhere"),
        (plant_pipe, "it is no plain file"),
        (plant_socket, "it is no plain file"),
    ],
)
@pytest.mark.parametrize("was_there", [True, False])
def test_what_is_neither_a_file_nor_a_directory(
    skills: Path,
    shown: Path,
    secret: Path,
    plant: Callable[[Path, Path], None],
    said: str,
    *,
    was_there: bool,
) -> None:
    if was_there:
        run(skills, shown)
    (skills / "mail/SKILL.md").unlink()
    plant(skills / "mail/SKILL.md", secret)

    assert run(skills, shown) == [f"'mail/SKILL.md' is not copied: {said}"]

    assert tree(shown) == {path: text for path, text in WHOLE.items() if path != "mail/SKILL.md"}


@pytest.mark.parametrize("place", ["mail", "mail/SKILL.md"])
def test_a_name_that_is_swapped_for_a_link_all_the_time(
    skills: Path, shown: Path, tmp_path: Path, place: str
) -> None:
    """At whatever moment the link appears, nothing comes from where it leads."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "SKILL.md").write_text(SECRET)
    leads = outside if place == "mail" else outside / "SKILL.md"
    stop, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            (skills / place).rename(skills / "aside")
            (skills / place).symlink_to(leads)
            (skills / place).unlink()
            (skills / "aside").rename(skills / place)
            swaps += 1

    swapping = threading.Thread(target=swap)
    swapping.start()
    texts: set[str | None] = set()
    try:
        for _ in range(500):
            run(skills, shown)
            texts |= set(tree(shown).values())
    finally:
        stop.set()
        swapping.join()

    assert swaps > 10
    assert "write mails" in texts
    assert SECRET not in texts


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for other users")
@pytest.mark.parametrize("place", ["mail", "mail/SKILL.md"])
def test_nobody_is_shown_what_they_could_not_read(skills: Path, shown: Path, place: str) -> None:
    (skills / "mail/lib/send").chmod(0o755)
    (skills / place).chmod(0o700)

    complaints = run(skills, shown, reader=(1000, 1000))

    what = "enter" if place == "mail" else "read"
    assert complaints == [f"'{place}' is not copied: the sandbox's user may not {what} it"]
    assert "mail/SKILL.md" not in tree(shown)
    os.chown(skills / place, 1000, 1000)
    assert run(skills, shown, reader=(1000, 1000)) == []
    assert tree(shown) == WHOLE


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_too_many_names(skills: Path, shown: Path) -> None:
    assert run(skills, shown, ROOMY._replace(entries=5)) == []
    assert tree(shown) == WHOLE

    (said,) = run(skills, shown, ROOMY._replace(entries=4))

    assert said.endswith(" is not copied: there are more than 4 names")
    assert len(tree(shown)) == 4


def test_a_directory_that_is_huge_is_not_read_to_its_end(
    skills: Path, shown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        (skills / f"{number:05}").touch()
    names = CountedNames()
    monkeypatch.setattr(os, "scandir", names)

    (said,) = run(skills, shown, ROOMY._replace(entries=10))

    assert said == "'.' is not copied: there are more than 10 names"
    assert names.read == 11


class CountedNames:
    """Counts what is read of directories."""

    def __init__(self) -> None:
        self.read = 0
        self._scan = os.scandir

    @contextmanager
    def __call__(self, directory: int) -> Iterator[Iterator[os.DirEntry[str]]]:
        with self._scan(directory) as entries:
            yield map(self._count, entries)

    def _count(self, entry: "os.DirEntry[str]") -> "os.DirEntry[str]":
        self.read += 1
        return entry


def test_too_many_bytes(skills: Path, shown: Path) -> None:
    size = sum(path.stat().st_size for path in skills.rglob("*") if path.is_file())
    assert run(skills, shown, ROOMY._replace(bytes=size)) == []

    (skills / "mail/SKILL.md").write_text("write mails!")
    for _ in range(2):  # what is there already counts as well
        (said,) = run(skills, shown, ROOMY._replace(bytes=size))
        assert said == f"'mail/lib/send' is not copied: there are more than {size} bytes"
        assert tree(shown) == {path: text for path, text in tree(skills).items() if path != "mail/lib/send"}


def test_too_deep(skills: Path, shown: Path) -> None:
    assert run(skills, shown, ROOMY._replace(depth=2)) == []
    (skills / "1/2/3/4").mkdir(parents=True)
    (skills / "1/2/file").write_text("fine")

    assert run(skills, shown, ROOMY._replace(depth=2)) == [
        "'1/2/3' is not copied: it lies more than 2 directories deep"
    ]

    assert tree(shown) == WHOLE | {"1": None, "1/2": None, "1/2/file": "fine"}


def test_of_many_complaints_some_are_told(skills: Path, shown: Path) -> None:
    for number in range(20):
        (skills / str(number)).symlink_to("x")

    complaints = run(skills, shown)

    assert len(complaints) == 9
    assert complaints[-1] == "and 12 more"
