"""Generated files are written where they are wanted, and what differs is told with the way to mend it."""

from pathlib import Path

import pytest

from sandkeeper.api import generated

FILES = {"a.md": "eins\nzwei → drei\n", "b.md": "b\n"}
"""With a character that not every locale has."""


def run(*arguments: str) -> int:
    return generated.main(FILES, program="the.program", arguments=arguments)


def test_what_is_written_is_what_is_checked(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"

    assert run("--write", str(folder)) == 0
    assert run("--write", str(folder)) == 0, "and again"
    assert {file.name: file.read_bytes().decode() for file in folder.iterdir()} == FILES
    assert run("--check", str(folder)) == 0


def test_what_differs_is_told_by_the_names_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("eins\nzwei - drei\n", encoding="utf-8")

    assert run("--check", str(tmp_path)) == 1

    said = capsys.readouterr()
    assert said.out.splitlines() == [
        f"--- {tmp_path}/a.md",
        f"+++ {tmp_path}/a.md (generated)",
        "@@ -1,2 +1,2 @@",
        " eins",
        "-zwei - drei",
        "+zwei → drei",
        f"--- {tmp_path}/b.md",
        f"+++ {tmp_path}/b.md (generated)",
        "@@ -0,0 +1 @@",
        "+b",
    ]
    assert said.err == f"{tmp_path} is out of date: python -m the.program --write {tmp_path}\n"


@pytest.mark.parametrize("arguments", [[], ["--write", "a", "--check", "b"], ["--write"]])
def test_one_thing_has_to_be_asked_for(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)

    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m the.program [-h] (--write DIR | --check DIR)")
