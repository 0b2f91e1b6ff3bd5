"""What is compared at the end of a whole run: what the chart grants, and what operators asked the API server for."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import execnet
import pytest

from support.helm import Helm
from support.rights import EXCUSED, Record, Right, complaints, granted_by, read_log, roles_of_the_operator

ROOT = Path(__file__).parents[2]

GET = Right("", "pods", "get")
EXEC = Right("", "pods/exec", "create")
PATCH = Right("sandkeeper.dev", "sandboxes", "patch")


def record(granted: set[Right], used: set[Right], refused: set[Right] | None = None) -> Record:
    return Record(frozenset(granted), frozenset(used), frozenset(refused or ()))


def test_rights_that_are_all_used_are_right() -> None:
    assert complaints(record({GET, PATCH}, {GET, PATCH}), excused=()) == []


def test_a_right_that_nobody_used_is_named() -> None:
    (said,) = complaints(record({GET, PATCH}, {GET}), excused=())
    assert (
        said
        == "Granted and never used in the whole run: patch sandboxes.sandkeeper.dev; take it out of the chart"
    )


def test_a_right_that_was_wanting_is_named_though_no_test_failed() -> None:
    (said,) = complaints(record({GET}, {GET}, {PATCH}), excused=())
    assert said.startswith("Asked for and not granted: patch sandboxes.sandkeeper.dev")


def test_an_excuse_holds_only_as_long_as_it_is_needed() -> None:
    assert complaints(record({GET, EXEC}, {GET}), excused={EXEC}) == []
    (said,) = complaints(record({GET, EXEC}, {GET, EXEC}), excused={EXEC})
    assert said.startswith("Used, and excused all the same: create pods/exec")


def test_an_api_server_that_writes_nothing_down_proves_nothing() -> None:
    (said,) = complaints(record({GET}, set()))
    assert "make cluster-down" in said


def test_what_several_processes_saw_is_put_together() -> None:
    one, other = record({GET, PATCH}, {GET}), record({GET, PATCH}, {PATCH}, {EXEC})
    # As pytest-xdist carries it, which takes no class of ours.
    told = Record.parse(execnet.loads(execnet.dumps(other.to_json())))
    assert told == other
    assert one | told == record({GET, PATCH}, {GET, PATCH}, {EXEC})


def event(user: str, verb: str, resource: str, *, decision: str = "allow", **target: str) -> str:
    return json.dumps(
        {
            "user": {"username": user},
            "verb": verb,
            "objectRef": {"resource": resource, **target},
            "annotations": {"authorization.k8s.io/decision": decision},
        }
    )


def test_a_log_is_read_for_one_user() -> None:
    lines = [
        event("us", "get", "pods", namespace="n"),
        event("us", "create", "pods", subresource="exec", decision="forbid"),
        event("us", "patch", "sandboxes", apiGroup="sandkeeper.dev"),
        event("us-too", "delete", "pods"),
        json.dumps({"user": {"username": "us"}, "verb": "get", "requestURI": "/api"}),
    ]
    allowed, refused = read_log(lines, user="us")
    assert (set(allowed), set(refused)) == ({GET, PATCH}, {EXEC})


PROJECT = {
    "pytest.ini": "[pytest]\ntestpaths = .\n",
    "conftest.py": """
import os
import pytest
from support import rights
from support.rights import *

@pytest.fixture(scope="session", autouse=True)
def told(pytestconfig):
    yield
    granted = [rights.Right("", "pods", verb) for verb in ("get", "list")]
    used = [right for right in granted if right.verb in os.environ["USED"]]
    rights._note(pytestconfig, rights.Record(frozenset(granted), frozenset(used)))

for hook in ("pytest_testnodedown", "pytest_sessionfinish", "pytest_terminal_summary"):
    globals()[hook] = getattr(rights, hook)
rights.EXCUSED.clear()
""",
    "test_some.py": "def test_one(): pass\ndef test_two(): pass\n",
}
"""A project of two tests, whose operators are granted two rights."""


@pytest.mark.parametrize(
    ("used", "arguments", "fails"),
    [
        ("get list", ["-n", "2"], False),
        ("get", ["-n", "2"], True),
        ("get", ["-n", "0"], True),
        ("get", ["-n", "2", "-m", "not nightly"], True),
        ("get", ["-n", "2", "-k", "one"], False),
        ("get", ["-n", "0", "test_some.py"], False),
        ("get", ["-n", "0", "-m", "cluster"], False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_whole_run_fails_and_a_chosen_part_does_not(
    tmp_path: Path, used: str, arguments: list[str], *, fails: bool
) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=tmp_path,
        env=os.environ | {"USED": used, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = "Granted and never used in the whole run: list pods; take it out of the chart"
    assert (said in done.stdout) is fails, done.stdout + done.stderr
    assert (done.returncode == pytest.ExitCode.TESTS_FAILED) is fails, done.stdout + done.stderr


def test_a_run_of_which_nobody_tells_anything_proves_nothing() -> None:
    (said,) = complaints(None)
    assert "compared with nothing" in said
    assert complaints(Record()) == [], "somebody else's cluster"


@pytest.mark.timeout(900)  # Helm may have to be built
def test_what_is_excused_is_granted_with_a_reason(renderer: Helm) -> None:
    assert set(EXCUSED) <= granted_by(roles_of_the_operator(renderer, release="test"))
    assert all(EXCUSED.values())


@pytest.mark.timeout(900)
def test_the_reference_tells_of_every_right(renderer: Helm) -> None:
    section = (
        (ROOT / "docs/reference/operator.md").read_text().partition("\n## What it asks of the cluster\n")[2]
    )
    groups = {
        right.resource: right.group for right in granted_by(roles_of_the_operator(renderer, release="test"))
    }
    told: set[Right] = set()
    for row in re.findall(r"^\| (`.*)$", section.partition("\n## ")[0], re.MULTILINE):
        resources, verbs, *_ = row.split(" | ")
        for resource in re.findall(r"`([^`]+)`", resources):
            told |= {
                Right(groups.get(resource, "?"), resource, verb) for verb in re.findall(r"[a-z]+", verbs)
            }
    assert told == granted_by(roles_of_the_operator(renderer, release="test"))
