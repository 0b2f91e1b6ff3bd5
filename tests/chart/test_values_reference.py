"""The reference of the chart's values has each of them, with what is said of it, its default and what it may be."""

from typing import Any

import pytest
import yaml

from manifests import values_reference
from testbed.operator_image import ROOT

TEXT = (ROOT / "charts/sandkeeper/values.yaml").read_text(encoding="utf-8")
VALUES = {str(value): value for value in values_reference.values(TEXT)}
ROWS = {
    line.split("`")[1]: line
    for line in values_reference.files()["chart.md"].splitlines()
    if line.startswith("| `")
}


def at(path: tuple[str, ...]) -> Any:
    found = yaml.safe_load(TEXT)
    for name in path:
        found = found[name]
    return found


def test_what_is_listed_is_the_whole_file() -> None:
    whole: dict[str, Any] = {}
    for value in VALUES.values():
        inside = whole
        for name in value.path[:-1]:
            inside = inside[name]
        inside[value.path[-1]] = {} if value.default is None else yaml.safe_load(value.default)
    assert whole == yaml.safe_load(TEXT)
    assert list(ROWS) == list(VALUES)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_everything_has_a_meaning(name: str) -> None:
    value = VALUES[name]
    # Whether a group is switched on is said of the group.
    about = VALUES[name.removesuffix(".enabled")]
    assert value.meaning or about.meaning
    assert value.default is None or yaml.safe_load(value.default) == at(value.path)


def test_a_comment_of_several_lines_is_one_meaning_and_an_empty_line_parts() -> None:
    text = "# Of nobody.\n\n# One\n# and two.\nname: {a: 1}\ngroup:\n  # Three.\n  inner: [1]\nbare:\n  inner: 1\n"
    assert [(str(one), one.default, one.meaning) for one in values_reference.values(text)] == [
        ("name", "{a: 1}", "One and two."),
        ("group", None, ""),
        ("group.inner", "[1]", "Three."),
        ("bare", "{inner: 1}", ""),
    ]


def test_what_the_schema_lets_it_be_is_told() -> None:
    assert "| `Always`, `IfNotPresent`, `Never` | `IfNotPresent` |" in ROWS["image.pullPolicy"]
    assert "| integer, 1 to 65535 | `8080` |" in ROWS["service.port"]
    assert "| integer or null | `null` |" in ROWS["docker.socket.group"]
    assert "| boolean | `true` |" in ROWS["crds.keep"]
    assert r"`^[0-9]+(ms\|s\|m\|h)$`" in ROWS["podMonitor.interval"]
