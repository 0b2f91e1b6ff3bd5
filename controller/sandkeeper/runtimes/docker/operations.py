"""What a request to the engine is for, read from its method and path: few words, whatever it is about."""

import re
from typing import Final
from urllib.parse import urlsplit

__all__ = ["operation_of", "result_of"]

_VERSION: Final = re.compile(r"^/v\d+\.\d+(?=/)")
_WHOLE: Final = {
    ("GET", "_ping"): "ping",
    ("GET", "info"): "info",
    ("GET", "version"): "version",
    ("GET", "events"): "events",
    ("GET", "containers/json"): "container_list",
    ("POST", "containers/create"): "container_create",
}
_OF_ONE: Final = {
    ("GET", "containers", "json"): "container_inspect",
    ("GET", "containers", "archive"): "archive_get",
    ("PUT", "containers", "archive"): "archive_put",
    ("HEAD", "containers", "archive"): "archive_stat",
    ("POST", "containers", "start"): "container_start",
    ("POST", "containers", "stop"): "container_stop",
    ("POST", "containers", "exec"): "exec_create",
    ("POST", "exec", "start"): "exec_start",
    ("GET", "exec", "json"): "exec_inspect",
    ("GET", "images", "json"): "image_inspect",
    ("DELETE", "containers", ""): "container_remove",
    ("GET", "networks", ""): "network_inspect",
}
_NOT_FOUND: Final = 404


def operation_of(method: str, url: str) -> str:
    """Tell what a request is for; ``other`` is what nobody here does."""
    path = _VERSION.sub("", urlsplit(url).path).strip("/")
    known = _WHOLE.get((method, path))
    if known is not None:
        return known
    kind, _, rest = path.partition("/")
    # The name of an image has slashes of its own.
    last = rest.rpartition("/")[2] if "/" in rest else ""
    return _OF_ONE.get((method, kind, last), "other")


def result_of(status: int | None) -> str:
    """Tell how a request ended; None: nobody answered."""
    if status is None:
        return "unanswered"
    if status < 400:  # noqa: PLR2004 - HTTP
        return "success"
    if status == _NOT_FOUND:
        return "not_found"
    return "refused" if status < 500 else "error"  # noqa: PLR2004 - HTTP
