"""The schema of the chart's values. ``config`` is the operator's own model: a field is known to both or to neither.

Run as a program (``python -m manifests.values_schema``), it takes ``--write`` or ``--check`` and the chart's folder.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from sandkeeper.api import generated
from sandkeeper.config.operator import OperatorConfig

__all__ = ["files", "schema"]

_SOURCE: Final = Path(__file__).resolve().parents[1] / "values.schema.yaml"
_SET_BY_THE_CHART: Final = ("namespace", "release")


def schema() -> dict[str, Any]:
    """Return the whole schema."""
    whole: dict[str, Any] = yaml.safe_load(_SOURCE.read_text(encoding="utf-8"))
    config = OperatorConfig.model_json_schema(ref_template="#/definitions/{model}")
    whole["definitions"] |= config.pop("$defs")
    for name in _SET_BY_THE_CHART:
        del config["properties"][name]
    whole["properties"]["config"] = config
    return whole


def files() -> Mapping[str, str]:
    """Return what is generated: file names, and the text of each."""
    return {"values.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"}


if __name__ == "__main__":
    sys.exit(generated.main(files(), program="manifests.values_schema", arguments=sys.argv[1:]))
