"""A page of the documents as something to follow: what it runs is run, in its order, and says what it shows."""

import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Page", "Step"]

_DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^\n((?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE)
_PROMPT = "$ "


@dataclass(frozen=True)
class Step:
    """A command, and what the page shows of its output; None: it shows nothing, and the command has to succeed."""

    command: str
    shown: str | None

    def agrees(self, output: str) -> bool:
        """Whether the output is what is shown: three dots stand for anything, and columns may be wider."""
        shown = re.escape(_plain(self.shown or "")).replace(re.escape("..."), ".*")
        return re.fullmatch(shown, _plain(output), re.DOTALL) is not None


class Page:
    """The indented blocks of one page. ``instead`` is what stands for a text on this machine.

    What begins with ``$`` is a command with what it says, anything else is commands.
    """

    def __init__(self, name: str, *, instead: Mapping[str, str] | None = None) -> None:
        text = (_DOCS / name).read_text(encoding="utf-8")
        for old, new in (instead or {}).items():
            assert old in text, f"{name} does not have {old!r}"
            text = text.replace(old, new)
        self.steps = [step for block in _BLOCK.findall(text) for step in _steps(textwrap.dedent(block))]

    def follow(self, env: Mapping[str, str], *, folder: Path) -> None:
        """Do all that it says, in a folder."""
        assert self.steps
        for step in self.steps:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", step.command],
                env=dict(env),
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=180,
                check=False,
            )
            said = f"$ {step.command}\n{done.stdout}"
            if step.shown is None:
                assert done.returncode == 0, said
            else:
                assert step.agrees(done.stdout), f"{said}\n--- the page shows:\n{step.shown}"


def _steps(block: str) -> Iterator[Step]:
    if not block.startswith(_PROMPT):
        yield Step(block, None)
        return
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command}\n{more}"
        yield Step(command, shown)


def _plain(text: str) -> str:
    return "\n".join(
        re.sub(r"[ \t]+", " ", line).strip() for line in text.strip().splitlines() if line.strip()
    )
