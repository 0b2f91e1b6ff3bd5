"""The reference of the metrics, generated from their catalogue: ``python -m sandkeeper.cli.reference``."""

import sys
from collections.abc import Iterator, Mapping

from sandkeeper.api import generated
from sandkeeper.telemetry.catalogue import CATALOGUE

__all__ = ["files"]

_INTRODUCTION = """# Metrics

At `/metrics` of the operator's health port, for Prometheus; as OpenMetrics where that is asked for. Units are base
units. No label has the name of a Sandbox: how many series there are does not depend on how many Sandboxes there are. A
standby, which does not lead, makes no passes and counts no changes.
"""


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield "| name | type | labels | meaning |"
    yield "|---|---|---|---|"
    for family in CATALOGUE:
        labels = "<br>".join(f"`{name}`: {values}" for name, values in family.labels.items())
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"


def files() -> Mapping[str, str]:
    """Return what is generated: file names, and the text of each."""
    return {"metrics.md": "\n".join(_lines()) + "\n"}


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="sandkeeper.cli.reference", arguments=sys.argv[1:]))
