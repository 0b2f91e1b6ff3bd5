"""Logging for those who run the operator; users are told by conditions and Events.

A line is for a person (``text``) or for a program (``json``). Both carry the same keys: what the line is about, in its
``extra``; and of a pass, what all its lines have in common (:func:`reconciling`), ``reconcileID`` above all.
"""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Final

from pythonjsonlogger.json import JsonFormatter

__all__ = ["LogFormat", "about", "reconciling", "set_up_logging"]

_PASS: Final[ContextVar[dict[str, str] | None]] = ContextVar("sandkeeper_pass", default=None)
"""The keys of the pass that is being made. A task that is begun in a pass has them, too."""

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What every record has by itself; whatever else is there was handed over as ``extra``, or is the pass's."""
_NAMED: Final = frozenset({"key", "namespace", "policy", "sandbox"})


class LogFormat(StrEnum):
    """How a line looks."""

    TEXT = "text"
    JSON = "json"


@contextmanager
def reconciling(**keys: str) -> Iterator[str]:
    """Give every line that is logged in here these keys, and a ``reconcileID`` of its own, which is returned."""
    reconcile_id = f"{random.getrandbits(64):016x}"  # a UUID costs more
    token = _PASS.set({"reconcileID": reconcile_id, **keys})
    try:
        yield reconcile_id
    finally:
        _PASS.reset(token)


def about(**keys: str) -> None:
    """Add keys to those of the pass that is being made: what it is about, once that is known."""
    known = _PASS.get()
    if known is not None:
        known.update(keys)


class _AddPass(logging.Filter):
    """Gives a record the keys of the pass in which it was logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add them, where the record has no such key of its own; let everything through."""
        for key, value in (_PASS.get() or {}).items():
            vars(record).setdefault(key, value)
        return True


class _Text(logging.Formatter):
    """A line for a person: its keys stand behind the message, but for those that most messages name already."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Write the line without a trace."""
        shown = {key: value for key, value in vars(record).items() if key not in _OWN | _NAMED and value}
        return super().formatMessage(record) + "".join(
            f" {key}={_text(value)}" for key, value in shown.items()
        )


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _json() -> JsonFormatter:
    return JsonFormatter(
        "%(levelname)s %(name)s %(message)s",
        rename_fields={"levelname": "level", "name": "logger", "exc_info": "error"},
        timestamp="time",
    )


def set_up_logging(*, verbose: bool, form: LogFormat = LogFormat.TEXT) -> None:
    """Send log lines to standard error; ``verbose`` adds our own debug lines, not those of libraries."""
    handler = logging.StreamHandler()
    handler.addFilter(_AddPass())
    handler.setFormatter(
        _json() if form is LogFormat.JSON else _Text("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("sandkeeper").setLevel(logging.DEBUG if verbose else logging.INFO)
    for library in ("kopf", "urllib3", "docker", "opentelemetry"):
        logging.getLogger(library).setLevel(logging.WARNING)
