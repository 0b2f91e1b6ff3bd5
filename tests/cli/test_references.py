"""The reference of the operator's configuration: every field, with its default and its bounds."""

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from sandkeeper.cli import reference
from sandkeeper.config.operator import OperatorConfig

PAGE = reference.files()["configuration.md"]


def row(section: str, field: str) -> str:
    (text,) = re.findall(rf"^## <a id=\"{section}\"></a>.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = re.findall(rf"^\| `{field}` .*$", text, re.MULTILINE)
    return str(found)


def fields(model: type[BaseModel], section: str = "top") -> Iterator[tuple[str, str]]:
    for field in model.model_fields.values():
        assert field.alias is not None
        yield section, field.alias
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            # Both speeds of removals are described in one place.
            inner = "replacements" if field.alias == "prunes" else field.alias
            yield from fields(field.annotation, inner)


@pytest.mark.parametrize(("section", "field"), sorted(set(fields(OperatorConfig))))
def test_every_field_has_a_row_with_its_meaning(section: str, field: str) -> None:
    cells = re.split(r"(?<!\\)\|", row(section, field))
    assert len(cells) == 6
    assert cells[4].strip().endswith(".")


@pytest.mark.parametrize(
    ("section", "field", "told"),
    [
        ("top", "removals", "| `allowed`, `forbidden` | default `allowed` |"),
        ("top", "workers", "| integer | 1 to 256<br>default `16` |"),
        ("top", "backends", '| default `["docker"]` |'),
        ("top", "ceilings", "| [ceilings](#ceilings) |  |"),
        ("top", "prunes", '| [replacements](#replacements) | default `{"perMinute": 1200, "burst": 100}` |'),
        ("ceilings", "gpus", "| boolean | default `false` |"),
        ("ceilings", "bindRoots", "| list of string |  |"),
        ("docker", "maxContainers", "| integer | at least 1<br>default `200` |"),
        ("docker", "timeoutSeconds", "| number | above 0, at most 600<br>default `30` |"),
        ("replacements", "burst", "| integer | at least 1<br>default `20` |"),
    ],
)
def test_bounds_and_defaults_are_told(section: str, field: str, told: str) -> None:
    assert told in row(section, field)


def test_nobody_else_than_the_installer_writes_it() -> None:
    assert "set by" not in PAGE
