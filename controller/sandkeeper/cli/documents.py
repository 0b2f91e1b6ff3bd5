"""Objects as YAML that kubectl reads as it was meant."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

__all__ = ["as_yaml"]


class _Dumper(yaml.SafeDumper):
    """Quotes what kubectl would take for a number as well: its YAML is of a later version than the library's."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"0o[0-7]+$"), ["0"])


def as_yaml(found: Mapping[str, Any]) -> str:
    """Write one object, its fields in the order in which they are."""
    return yaml.dump(dict(found), Dumper=_Dumper, sort_keys=False, allow_unicode=True)
