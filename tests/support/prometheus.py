"""A real Prometheus, Debian's, with a configuration and data of its own; and what it answers."""

import json
import re
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.waiting import wait_for
from testbed import packages

__all__ = ["Prometheus", "Target", "a_prometheus"]


@dataclass(frozen=True)
class Target:
    """Where to scrape, and the labels that its series get."""

    address: str
    labels: Mapping[str, str]


class Prometheus:
    """What a running one answers."""

    def __init__(self, address: str) -> None:
        self._address = address

    def query(self, expression: str, *, at: float | None = None) -> list[dict[str, Any]]:
        """Evaluate an expression now, or at some moment; return the samples of a vector."""
        when = {} if at is None else {"time": f"{at:.3f}"}
        data = self.get("query", query=expression, **when)
        found: list[dict[str, Any]] = data["result"]
        return found

    def query_range(self, expression: str, *, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Evaluate an expression over some time; return its series."""
        data = self.get(
            "query_range", query=expression, start=f"{start:.3f}", end=f"{end:.3f}", step=f"{step:g}"
        )
        found: list[dict[str, Any]] = data["result"]
        return found

    def get(self, what: str, **parameters: str) -> Any:
        """Ask its HTTP API; AssertionError with its words where it refuses."""
        url = f"http://{self._address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what} {parameters}: {error.read().decode()}") from error
        return said["data"]


@contextmanager
def a_prometheus(
    folder: Path, targets: Sequence[Target], *, interval: float, rules: Sequence[Path] = ()
) -> Iterator[Prometheus]:
    """Run one that scrapes these, every so many seconds, and evaluates these rules as often."""
    packages.ensure(packages.PROMETHEUS)
    every = f"{interval * 1000:.0f}ms"
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {
                "job_name": "sandkeeper",
                "static_configs": [
                    {"targets": [target.address], "labels": dict(target.labels)} for target in targets
                ],
            }
        ],
    }
    path, log = folder / "prometheus.yaml", folder / "prometheus.log"
    path.write_text(yaml.safe_dump(config))
    arguments = [
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with log.open("ab") as sink:
        process = subprocess.Popen(
            ["prometheus", *arguments], stdout=sink, stderr=sink, start_new_session=True
        )

    def address() -> str | None:
        assert process.poll() is None, f"Prometheus ended:\n{log.read_text()[-3000:]}"
        found = re.search(r'msg="Listening on" address=(\S+)', log.read_text())
        return found[1] if found else None

    try:
        wait_for(lambda: address() is not None, what="Prometheus listens")
        yield Prometheus(address() or "")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@pytest.fixture(scope="session")
def prometheus_package() -> None:
    """See to it that prometheus and promtool are there."""
    packages.ensure(packages.PROMETHEUS)
