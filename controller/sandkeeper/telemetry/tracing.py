"""Traces of passes, by OpenTelemetry: an optional extra, imported only where it is switched on.

It is switched on by the usual variables of the environment (``OTEL_EXPORTER_OTLP_ENDPOINT`` and its like), or by the
operator's configuration; where to send, how much, and under which name, those variables say in either case.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["OpenTelemetry", "Span", "Tracer", "Untraced", "is_asked_for", "is_installed", "tracer"]

logger = logging.getLogger(__name__)

_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Span(Protocol):
    """One pass, while it is made."""

    trace_id: str | None
    """None: nobody records it."""

    def end(self, *, result: str, rule: str) -> None:
        """Say how it ended."""


class Tracer(Protocol):
    """Where spans come from."""

    def span(self, attributes: Mapping[str, str]) -> Any:  # noqa: ANN401 - a context manager of a Span
        """Begin the span of a pass; it ends with the context."""

    def close(self) -> None:
        """Send what was not sent yet; takes seconds at most."""


class Untraced:
    """No traces: its own tracer, its own span, and nothing to pay for."""

    trace_id: str | None = None

    def span(self, attributes: Mapping[str, str]) -> "Untraced":
        """Begin nothing."""
        del attributes
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def end(self, *, result: str, rule: str) -> None:
        """Say it to nobody."""

    def close(self) -> None:
        """Nothing to send."""


class _Recorded:
    def __init__(self, span: Any) -> None:  # noqa: ANN401 - its type is imported only where it is used
        self._span = span
        context = span.get_span_context()
        self.trace_id = f"{context.trace_id:032x}" if context.trace_flags.sampled else None

    def end(self, *, result: str, rule: str) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - imported by now

        self._span.set_attributes({"sandkeeper.result": result, "sandkeeper.rule": rule})
        if result == "error":
            self._span.set_status(Status(StatusCode.ERROR))


class OpenTelemetry:
    """Spans by OpenTelemetry's SDK. Raises ImportError where the extra is not installed."""

    def __init__(self, *, version: str, exporter: "SpanExporter | None" = None) -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional, and slow to import
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - as above
                OTLPSpanExporter,
            )

            exporter = OTLPSpanExporter()
        named = "OTEL_SERVICE_NAME" in os.environ
        resource = Resource.create({} if named else {"service.name": "sandkeeper"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("sandkeeper", version)

    @contextmanager
    def span(self, attributes: Mapping[str, str]) -> Iterator[Span]:
        """Begin the span of a pass; it ends with the context."""
        with self._tracer.start_as_current_span("reconcile", attributes=dict(attributes)) as span:
            yield _Recorded(span)

    def close(self) -> None:
        """Send what was not sent yet."""
        self._provider.shutdown()


def is_asked_for() -> bool:
    """Whether the environment says where to send traces, and does not say that none are to be sent."""
    if (
        os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    ):
        return False
    return any(os.environ.get(name) for name in _ENDPOINTS)


def is_installed() -> bool:
    """Whether the extra is."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:  # of a package above it
        return False


def tracer(*, enabled: bool, version: str) -> Tracer:
    """Return what makes spans. ``enabled``: the configuration asks for them, whatever the environment says.

    The environment may be set for all programs alike: where the extra is not installed, nothing is traced.
    """
    if not (enabled or is_asked_for()):
        return Untraced()
    if not is_installed():
        logger.warning("Tracing nothing, though it is asked for: install sandkeeper[tracing]")
        return Untraced()
    logger.info("Tracing passes")
    return OpenTelemetry(version=version)
