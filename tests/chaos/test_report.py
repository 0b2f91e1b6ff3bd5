"""What is written of storms, without one."""

import json
from collections import Counter
from pathlib import Path

from chaos import report
from chaos.storm import Outcome
from chaos.storms import STORMS


def test_both_files_tell_the_same(tmp_path: Path) -> None:
    outcomes = [
        Outcome(
            storm=name,
            seed=7,
            seconds=60,
            faults=Counter({"5xx": 3, "Pod removed": 2}),
            missed=Counter({"watch silent": 1}),
            sandboxes=12,
            violations=["rain is lost"] if name == "pods" else [],
        )
        for name in STORMS
    ]
    report.write(tmp_path, list(STORMS.values()), outcomes)
    data = json.loads((tmp_path / "reliability.json").read_text())
    assert [storm["storm"] for storm in data["storms"]] == list(STORMS)
    assert data["storms"][0]["faults"] == {"5xx": 3, "Pod removed": 2}
    text = (tmp_path / "reliability.md").read_text()
    assert f"{5 * len(STORMS)} faults of 2 kinds, {12 * len(STORMS)} Sandboxes, 1 violations." in text
    assert "* rain is lost" in text
    assert "| watch silent | 0 | 1 |" in text
    for storm in STORMS.values():
        assert f"## The storm {storm.name}" in text
