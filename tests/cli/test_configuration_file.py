"""The operator's configuration file is checked whole, and every mistake is named by its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sandkeeper.cli.configuration import load
from sandkeeper.cli.failures import Failure
from sandkeeper.config.operator import OperatorConfig

RefusalOf = Callable[[str], str]


@pytest.fixture
def refusal_of(tmp_path: Path) -> RefusalOf:
    def refusal(text: str) -> str:
        path = tmp_path / "operator.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(Failure) as failure:
            load(path)
        return failure.value.message

    return refusal


def test_without_a_file_the_defaults_hold() -> None:
    assert load(None) == OperatorConfig()


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "operator.yaml"
    path.write_text("# nothing yet\n", encoding="utf-8")
    assert load(path) == OperatorConfig()


def test_fields_are_read(tmp_path: Path) -> None:
    path = tmp_path / "operator.yaml"
    path.write_text("release: two\nceilings:\n  bindRoots: [/srv/agents]\n", encoding="utf-8")
    config = load(path)
    assert config.release == "two"
    assert list(config.ceilings.bind_roots) == ["/srv/agents"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("relaese: x\n", "relaese: there is no such field"),
        ("ceilings: {bindRoot: [/srv]}\n", "ceilings.bindRoot: there is no such field"),
        (
            "ceilings: {bindRoots: [/srv, agents]}\n",
            "ceilings.bindRoots[1]: 'agents' has to be an absolute path",
        ),
        ("ceilings: {users: [0]}\n", "ceilings.users[0]: Input should be a valid string"),
        ("docker: {workers: 0}\n", "docker.workers: "),
        (
            "backends: [pod]\nceilings: {pidsLimit: 100}\n",
            "ceilings: pidsLimit is for Docker containers, which this operator does not serve",
        ),
        ("- release\n", "has to be a mapping of fields, not a list"),
        ("release: [\n", "is not YAML"),
    ],
)
def test_mistakes_are_named(refusal_of: RefusalOf, text: str, said: str) -> None:
    assert said in refusal_of(text)


def test_all_mistakes_are_named_at_once(refusal_of: RefusalOf) -> None:
    said = refusal_of("one: 1\ntwo: 2\n")
    assert "one: " in said
    assert "two: " in said


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"nowhere\.yaml cannot be read"):
        load(tmp_path / "nowhere.yaml")
