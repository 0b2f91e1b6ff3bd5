"""Traces are made only where they are asked for, and name what a pass was about and how it ended."""

import importlib.util
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from sandkeeper.telemetry import tracing
from sandkeeper.telemetry.tracing import OpenTelemetry, Untraced, tracer


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_SDK_DISABLED",
        "OTEL_TRACES_EXPORTER",
        "OTEL_SERVICE_NAME",
    ):
        monkeypatch.delenv(name, raising=False)


def test_a_pass_is_a_span() -> None:
    exporter = InMemorySpanExporter()
    made = OpenTelemetry(version="1.2.3", exporter=exporter)
    with made.span({"key": "a/b/c", "reconcileID": "1"}) as span:
        span.end(result="success", rule="reuse")
    with made.span({"key": "a/b/d"}) as other:
        other.end(result="error", rule="")
    made.close()
    first, second = exporter.get_finished_spans()
    assert first.context is not None
    assert span.trace_id == f"{first.context.trace_id:032x}"
    assert span.trace_id != other.trace_id
    assert first.name == "reconcile"
    assert first.resource.attributes["service.name"] == "sandkeeper"
    assert dict(first.attributes or {}) == {
        "key": "a/b/c",
        "reconcileID": "1",
        "sandkeeper.result": "success",
        "sandkeeper.rule": "reuse",
    }
    assert first.status.status_code is StatusCode.UNSET
    assert second.status.status_code is StatusCode.ERROR


def test_a_trace_that_is_not_sampled_has_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    exporter = InMemorySpanExporter()
    made = OpenTelemetry(version="1", exporter=exporter)
    with made.span({}) as span:
        assert span.trace_id is None
    made.close()
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({}, Untraced),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, Untraced),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, OpenTelemetry),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, OpenTelemetry),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, Untraced),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, Untraced),
    ],
)
def test_the_environment_switches_it_on(
    environment: dict[str, str], kind: type[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made = tracer(enabled=False, version="1")
    assert isinstance(made, kind)
    made.close()


def test_so_does_the_configuration() -> None:
    made = tracer(enabled=True, version="1")
    assert isinstance(made, OpenTelemetry)
    made.close()


def test_without_the_extra_nothing_is_traced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def find_spec(name: str) -> Any:
        assert importlib.util.find_spec("opentelemetry") is not None
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(tracing, "find_spec", find_spec)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    made = tracer(enabled=False, version="1")
    assert isinstance(made, Untraced)
    assert "sandkeeper[tracing]" in caplog.text
    with made.span({}) as span:
        span.end(result="success", rule="")
        assert span.trace_id is None
