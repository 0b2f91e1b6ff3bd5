"""The operator's configuration file: YAML, checked whole before anything starts."""

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from sandkeeper.cli.failures import Failure
from sandkeeper.config.operator import OperatorConfig

__all__ = ["load"]


def load(path: Path | None) -> OperatorConfig:
    """Read the file; without one, the defaults hold. A Failure names every field that is wrong."""
    if path is None:
        return OperatorConfig()
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise Failure(f"{path} is not YAML: {error}") from error
    if read is None:
        return OperatorConfig()
    if not isinstance(read, dict):
        raise Failure(f"{path} has to be a mapping of fields, not a {type(read).__name__}.")
    try:
        return OperatorConfig.model_validate(read)
    except ValidationError as error:
        problems = [f"  {_field(each['loc'])}: {_said(each['type'], each['msg'])}" for each in error.errors()]
        raise Failure("\n".join([f"{path} is not a valid configuration:", *problems])) from error


def _field(location: Sequence[str | int]) -> str:
    """Write the place as one would in a path: ``ceilings.bindRoots[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.lstrip(".") or "(the whole)"


def _said(kind: str, message: str) -> str:
    return "there is no such field" if kind == "extra_forbidden" else message.removeprefix("Value error, ")
