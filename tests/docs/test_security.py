"""docs/security.md tells of every attack that is tested, in the words of its test, and of no other."""

import re
from pathlib import Path

import pytest

from attacks.register import tables

TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("module", "table"), tables().items())
def test_every_attack_is_told_in_the_words_of_its_test(module: str, table: str) -> None:
    assert table in TEXT, f"what docs/security.md is to say of {module}:\n\n{table}"


def test_no_other_attack_is_told() -> None:
    told = re.findall(r"^\|.*\| `(\w+)` \|$", TEXT, re.MULTILINE)
    tested = re.findall(r"\| `(\w+)` \|$", "\n".join(tables().values()), re.MULTILINE)
    assert sorted(told) == sorted(tested)
    assert set(re.findall(r"`tests/attacks/(\w+\.py)`", TEXT)) == set(tables())
