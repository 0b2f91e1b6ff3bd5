"""What the benchmark makes of its figures: no cluster, and nothing is measured."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from bench import targets
from bench.contenders import BARE, OURS, SKETCH
from bench.figures import Section, Table
from bench.kube import sandboxes
from bench.observer import SANDBOX_READY, Observer
from bench.phase import DRIFTED, REPLACED
from bench.plots import draw
from bench.report import Report
from bench.targets import Target

MACHINE = {
    "cores": 2,
    "processor": "one",
    "memoryGiB": 24,
    "kernel": "6",
    "kubernetes": "v1",
    "cluster": "local",
    "docker": "20",
    "storageDriver": "overlay2",
    "python": "3",
    "kopf": "1",
    "sandkeeper": "0",
}
FIGURES: dict[str, Any] = {
    "burst": {"count": 3, "contenders": {name: {"throughput": [90.0]} for name in (BARE, SKETCH, OURS)}},
    "rate": {
        "perSecond": 50,
        "contenders": {OURS: {"curve": [[0, 0.01], [50, 0.02], [100, 0.3]]}},
    },
    "scale": {
        "emptyMiB": 70,
        "sizes": [
            {"size": 100, "residentMiB": 80, "processorSecondsEach": 0.004},
            {"size": 1000, "residentMiB": 90, "processorSecondsEach": 0.005},
        ],
    },
}


def section(name: str, headline: str) -> Section:
    return Section(
        name=name,
        title=name,
        method="Somehow.",
        tables=(Table(("", "n"), (("one", "1"),)),),
        headline=headline,
        data=FIGURES[name],
        part=name,
    )


def test_a_target_is_reached_from_the_right_side() -> None:
    at_most = Target(what="writes", bound=2, measured=2)
    at_least = Target(what="rate", bound=0.7, measured=0.69, at_least=True)
    unknown = Target(what="alone", bound=1, measured=None)
    assert [each.outcome for each in (at_most, at_least, unknown)] == ["reached", "missed", "not measured"]
    assert targets.verdict((at_most, at_least, unknown)) == "Targets reached: 1 of 3. Missed: rate."


def test_plots_are_whole_and_the_same_for_the_same_figures(tmp_path: Path) -> None:
    draw(FIGURES, tmp_path)
    first = {path.name: path.read_bytes() for path in (tmp_path / "performance").iterdir()}
    draw(FIGURES, tmp_path)
    again = {path.name: path.read_bytes() for path in (tmp_path / "performance").iterdir()}
    assert first == again
    assert first.keys() == {"throughput.svg", "latency.svg", "memory.svg", "processor.svg"}
    for text in first.values():
        assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314 - we wrote it


def test_a_part_that_is_measured_anew_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    order = ("burst", "rate")
    for name, headline in (("rate", "Old rate."), ("burst", "Old burst."), ("rate", "New rate.")):
        Report.of(MACHINE, section(name, headline), loads=(1, 2)).write(tmp_path, order=order)
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith(("* Old", "* New"))] == [
        "* Old burst.",
        "* New rate.",
    ]
    assert "![latency](performance/latency.svg)" in page
    assert json.loads((tmp_path / "performance.json").read_text(encoding="utf-8"))["figures"].keys() == set(
        order
    )
    lines = (tmp_path / "performance-history.jsonl").read_text(encoding="utf-8").splitlines()
    assert [list(json.loads(line)["figures"]) for line in lines] == [["rate"], ["burst"], ["rate"]]


def event(kind: str, **status: Any) -> bytes:
    metadata = {"name": "rain", "namespace": "team", "resourceVersion": "7"}
    found = {"type": kind, "object": {"metadata": metadata, "status": status}}
    return json.dumps(found, separators=(",", ":")).encode()


def condition(name: str, value: str) -> dict[str, str]:
    return {"reason": "Running", "status": value, "type": name}


@pytest.mark.parametrize(
    ("status", "ready", "drifted", "replaced"),
    [
        ({}, False, False, False),
        ({"conditions": [condition("Ready", "False")]}, False, False, False),
        ({"conditions": [condition("Ready", "False"), condition("Drifted", "True")]}, False, True, False),
        (
            {
                "conditions": [condition("Ready", "True"), condition("Drifted", "True")],
                "configHash": "v2-a",
                "desiredConfigHash": "v2-b",
            },
            True,
            True,
            False,
        ),
        (
            {"conditions": [condition("Ready", "True")], "configHash": "v2-b", "desiredConfigHash": "v2-b"},
            True,
            False,
            True,
        ),
    ],
)
def test_what_is_looked_for_in_the_bytes_of_an_event(
    status: dict[str, Any], *, ready: bool, drifted: bool, replaced: bool
) -> None:
    line = event("MODIFIED", **status)
    found = [bool(each.search(line)) for each in (SANDBOX_READY, DRIFTED, REPLACED)]
    assert found == [ready, drifted, replaced]


def test_an_observer_notes_the_first_time_and_counts_every_change() -> None:
    observer = Observer(None, "team", sandboxes, SANDBOX_READY)  # type: ignore[arg-type]  # it asks for nothing
    there = {"conditions": [condition("Ready", "True")]}
    for line in (
        event("ADDED"),
        event("MODIFIED", **there),
        event("MODIFIED", **there),
        event("DELETED", **there),
    ):
        observer.take(line)
    assert list(observer.ready_at) == ["rain"]
    assert observer.events == {"rain": 3}
