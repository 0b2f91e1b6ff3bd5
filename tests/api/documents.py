"""The example objects beside these tests."""

from pathlib import Path
from typing import Any, Final

import yaml

from sandkeeper.api.crd import POLICY, SANDBOX

__all__ = ["EXAMPLES", "RESOURCES", "example"]

EXAMPLES: Final = sorted(path.stem for path in (Path(__file__).parent / "examples").glob("*.yaml"))
RESOURCES: Final = {resource.kind: resource for resource in (SANDBOX, POLICY)}


def example(name: str) -> dict[str, Any]:
    """Read one example."""
    text = (Path(__file__).parent / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
    loaded = yaml.safe_load(text)
    assert isinstance(loaded, dict)
    return loaded
