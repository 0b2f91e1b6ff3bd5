"""Lists that are compared with what is known: of each object they say which one it is, and its version.

Metadata is the least that can be asked for, and most of that is ``managedFields``. All else is skipped while JSON is
read: an object of Python for each of its parts is six times the work, which is a second for ten thousand Pods.
"""

from typing import Final, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

__all__ = ["read_list"]


class _Metadata(TypedDict):
    namespace: NotRequired[str]
    name: str
    resourceVersion: str


class _Object(TypedDict):
    metadata: _Metadata


_ListMetadata = TypedDict("_ListMetadata", {"resourceVersion": str, "continue": NotRequired[str]})


class _List(TypedDict):
    metadata: _ListMetadata
    items: list[_Object] | None


_LIST: Final = TypeAdapter(_List)


def read_list(raw: bytes) -> _List:
    """Read a page of a list from JSON; ValueError where it is something else."""
    return _LIST.validate_json(raw)
