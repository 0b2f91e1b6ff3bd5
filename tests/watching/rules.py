"""The alerts that the chart ships, their tests and their runbooks."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["ALERTS", "RULES", "RUNBOOKS", "TESTS", "Alert", "mutants", "promtool"]

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "charts/sandkeeper/files/alerts"
RUNBOOKS: Final = ROOT / "docs/runbooks"
TESTS: Final = Path(__file__).parent / "alerts"

_COMPARISON: Final = re.compile(r"(?:[<>]=?|==) [0-9.]+\b(?!\))")
_ALWAYS: Final = "> -1"
_NEVER: Final = "> 1e9"


@dataclass(frozen=True)
class Alert:
    """One rule."""

    name: str
    path: Path
    rule: Mapping[str, Any]

    @property
    def expression(self) -> str:
        """What it looks at."""
        return str(self.rule["expr"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """What it says."""
        found: Mapping[str, str] = self.rule["annotations"]
        return found

    @property
    def tests(self) -> Path:
        """Where promtool's tests of it are."""
        return TESTS / f"{self.name}.yaml"


def _alerts() -> Iterator[Alert]:
    for path in sorted(RULES.glob("*.yaml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from (Alert(rule["alert"], path, rule) for rule in group["rules"])


ALERTS: Final = tuple(_alerts())


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    return subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )


def mutants(alert: Alert) -> Iterator[tuple[str, dict[str, Any]]]:
    """Break a rule in every way that its tests have to notice: no patience, and each threshold moved out of the way."""
    rule = dict(alert.rule)
    if "for" in rule:
        yield "without its `for`", {key: value for key, value in rule.items() if key != "for"}
    for found in _COMPARISON.finditer(alert.expression):
        for instead in (_ALWAYS, _NEVER):
            broken = alert.expression[: found.start()] + instead + alert.expression[found.end() :]
            yield f"`{found[0]}` as `{instead}`", {**rule, "expr": broken}
