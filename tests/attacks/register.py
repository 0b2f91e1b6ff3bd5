"""What is attacked here. Each test says what it tries and what stops it; docs/security.md says the same."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["On", "attack", "tables"]

_HERE: Final = Path(__file__).parent
_ATTACK: Final = "attack"

Test = TypeVar("Test", bound=Callable[..., Any])


class On(StrEnum):
    """Against what an attack is tried."""

    BOTH = "container, Pod"
    CONTAINER = "container"
    POD = "Pod"
    ADMISSION = "API server"
    CODE = "code"


@dataclass(frozen=True, kw_only=True)
class _Attack:
    tried: str
    stopped_by: str
    on: On


def attack(tried: str, *, stopped_by: str, on: On = On.BOTH) -> Callable[[Test], Test]:
    """Say of a test, each in one line: what it tries, what stops it, and where."""
    said = _Attack(tried=tried, stopped_by=stopped_by, on=on)

    def mark(test: Test) -> Test:
        setattr(test, _ATTACK, said)
        return test

    return mark


def tables() -> dict[str, str]:
    """Return what docs/security.md says of each module of tests: a heading, and a table of its attacks."""
    return {path.name: _table(path) for path in sorted(_HERE.glob("test_*.py"))}


def _table(path: Path) -> str:
    module = importlib.import_module(f"attacks.{path.stem}")
    assert module.__doc__, f"{path.name} does not say what it attacks"
    title = module.__doc__.partition("\n")[0].rstrip(".")
    head = [f"### {title}", "", f"`tests/attacks/{path.name}`", ""]
    columns = ["| tried | stopped by | on | test |", "|---|---|---|---|"]
    return "\n".join([*head, *columns, *_rows(module), ""])


def _rows(module: Any) -> Iterator[str]:
    for name, test in vars(module).items():
        if not name.startswith("test_") or getattr(test, "__module__", None) != module.__name__:
            continue
        said: _Attack | None = getattr(test, _ATTACK, None)
        assert said is not None, f"{module.__name__}.{name} does not say what it tries"
        yield f"| {said.tried} | {said.stopped_by} | {said.on} | `{name.removeprefix('test_')}` |"
