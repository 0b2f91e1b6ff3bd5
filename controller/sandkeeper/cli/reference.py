"""The references of the operator's configuration and of its metrics, generated from the model and the catalogue.

Run as a program (``python -m sandkeeper.cli.reference``), it takes ``--write docs/reference`` or
``--check docs/reference``.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from sandkeeper.api import generated
from sandkeeper.api.tables import Tables
from sandkeeper.config.operator import OperatorConfig
from sandkeeper.telemetry.catalogue import CATALOGUE

__all__ = ["files"]

_HEADER: Final = (
    "<!-- Generated from the model of the configuration and the catalogue of the metrics: change those, then run\n"
    "     python -m sandkeeper.cli.reference --write docs/reference -->\n"
)
_CONFIGURATION: Final = """# The operator's configuration

What the installer says, in one file for the whole operator: `sandkeeper run --config FILE`, or `config` among
[the chart's values](chart.md). YAML; everything has a default, and a field that is not known is an error that names
it. It is read once, at the start. [The operator](operator.md) tells the rest: how it finds cluster and engine, what it
logs, which rights it needs.
"""
_METRICS: Final = """# Metrics

At `/metrics` of the operator's health port, for Prometheus; as OpenMetrics where that is asked for. Units are base
units. No label has the name of a Sandbox: how many series there are does not depend on how many Sandboxes there are. A
standby, which does not lead, makes no passes and counts no changes.
"""


def _configuration_lines() -> Iterator[str]:
    yield _HEADER
    yield _CONFIGURATION
    tables = Tables()
    tables.add("", OperatorConfig, author=None)
    yield from tables.lines()


def _metrics_lines() -> Iterator[str]:
    yield _HEADER
    yield _METRICS
    yield "| name | type | labels | meaning |"
    yield "|---|---|---|---|"
    for family in CATALOGUE:
        labels = "<br>".join(f"`{name}`: {values}" for name, values in family.labels.items())
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"


def files() -> Mapping[str, str]:
    """Return what is generated: file names, and the text of each."""
    pages = {"configuration.md": _configuration_lines(), "metrics.md": _metrics_lines()}
    return {name: generated.page(lines) for name, lines in pages.items()}


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="sandkeeper.cli.reference", arguments=sys.argv[1:]))
