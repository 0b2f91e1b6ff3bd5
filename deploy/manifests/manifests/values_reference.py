"""The reference of the chart's values: what values.yaml says of each, its default, and what its schema lets it be.

Run as a program (``python -m manifests.values_reference``), it takes ``--write`` or ``--check`` and
``docs/reference``.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from manifests.values_schema import schema
from sandkeeper.api import generated

__all__ = ["Value", "files", "values"]

_CHART: Final = Path(__file__).resolve().parents[3] / "charts/sandkeeper"
_INTRODUCTION: Final = """<!-- Generated from charts/sandkeeper/values.yaml and its schema: change those, then run
     make reference -->

# The chart's values

What `helm install` takes with `--set` or `--values`; a name that is not known is refused, and so is a value that
cannot be. [How to install](../how-to/install.md) tells which of them are decided first.

| value | may be | default | meaning |
|---|---|---|---|"""

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Value:
    """One value of the chart, or a group of them, which has no default of its own."""

    path: tuple[str, ...]
    default: str | None
    """As one would write it."""
    meaning: str
    """The comment above it."""

    def __str__(self) -> str:
        """Write it as ``--set`` takes it."""
        return ".".join(self.path)


def values(text: str) -> Iterator[Value]:
    """Yield what a values file has, in its order."""
    yield from _inside(yaml.compose(text, Loader=yaml.SafeLoader), text.splitlines(), path=())


def _inside(node: yaml.Node | None, lines: Sequence[str], *, path: tuple[str, ...]) -> Iterator[Value]:
    assert isinstance(node, yaml.MappingNode)  # noqa: S101 - others have nothing inside
    for name, value in node.value:
        here = (*path, name.value)
        meaning = _comment(lines, above=name.start_mark.line)
        # One that is written on one line is handed on as a whole; so is one that Kubernetes knows.
        if isinstance(value, yaml.MappingNode) and not value.flow_style and _is_ours(value, lines):
            yield Value(here, None, meaning)
            yield from _inside(value, lines, path=here)
        else:
            yield Value(here, _text(value), meaning)


def _is_ours(node: yaml.MappingNode, lines: Sequence[str]) -> bool:
    """Whether anything is said about what is in a group."""
    return any(_comment(lines, above=name.start_mark.line) for name, _ in node.value)


def _comment(lines: Sequence[str], *, above: int) -> str:
    first = above
    while first and lines[first - 1].strip().startswith("#"):
        first -= 1
    return " ".join(line.strip().removeprefix("#").strip() for line in lines[first:above])


def _text(node: yaml.Node) -> str:
    text: str = yaml.serialize(_flowing(node), width=10_000)
    return text.removesuffix("...\n").strip()


def _flowing(node: yaml.Node) -> yaml.Node:
    if isinstance(node, yaml.CollectionNode):
        node.flow_style = True
        for child in node.value:
            for each in child if isinstance(child, tuple) else (child,):
                _flowing(each)
    return node


def _may_be(whole: Schema, path: Sequence[str]) -> str:
    """Say what the schema lets a value be."""
    found = whole
    for name in path:
        found = _resolve(whole, _resolve(whole, found)["properties"][name])
    if "enum" in found:
        return ", ".join(f"`{value}`" for value in found["enum"])
    kind = found.get("type", "any")
    bounds = [f"{found['minimum']} to {found['maximum']}"] if "maximum" in found else []
    bounds += [f"`{found['pattern']}`"] if "pattern" in found else []
    return ", ".join([kind if isinstance(kind, str) else " or ".join(kind), *bounds]).replace("|", "\\|")


def _resolve(whole: Schema, found: Schema) -> Schema:
    if "$ref" in found:
        place: Schema = whole["definitions"][found["$ref"].rpartition("/")[2]]
        return place
    return found


def _rows() -> Iterator[str]:
    whole = schema()
    for value in values((_CHART / "values.yaml").read_text(encoding="utf-8")):
        kind, default = "", ""
        if value.default is not None:
            kind, default = _may_be(whole, value.path), f"`{value.default}`"
        yield f"| `{value}` | {kind} | {default} | {value.meaning} |"


def files() -> Mapping[str, str]:
    """Return what is generated: file names, and the text of each."""
    return {"chart.md": generated.page([_INTRODUCTION, *_rows()])}


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="manifests.values_reference", arguments=sys.argv[1:]))
