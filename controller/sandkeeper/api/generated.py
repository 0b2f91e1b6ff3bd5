"""Files that are generated from the models: written, or checked against what is in the repository."""

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["differences", "main", "page", "write"]


def page(lines: Iterable[str]) -> str:
    """Return the text of a file of these lines, which ends with one newline."""
    return "\n".join(lines).rstrip() + "\n"


def write(files: Mapping[str, str], *, into: Path) -> None:
    """Write the files into a folder, which is made if it is not there; names may have folders of their own."""
    for name, text in files.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def differences(files: Mapping[str, str], *, inside: Path) -> Iterator[str]:
    """Yield the lines of a diff from what is in the folder to what ought to be."""
    for name, text in files.items():
        path = inside / name
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        yield from difflib.unified_diff(
            found.splitlines(keepends=True),
            text.splitlines(keepends=True),
            fromfile=str(path),
            tofile=f"{path} (generated)",
        )


def main(files: Mapping[str, str], *, program: str, arguments: Sequence[str]) -> int:
    """Write or check, as the arguments say; the exit status is 1 where files differ."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", metavar="DIR", type=Path, help="write the files into this folder")
    action.add_argument("--check", metavar="DIR", type=Path, help="fail if the files in this folder differ")
    chosen = parser.parse_args(arguments)
    if chosen.write is not None:
        write(files, into=chosen.write)
        return 0
    found = list(differences(files, inside=chosen.check))
    sys.stdout.writelines(found)
    if found:
        sys.stderr.write(f"{chosen.check} is out of date: python -m {program} --write {chosen.check}\n")
    return 1 if found else 0
