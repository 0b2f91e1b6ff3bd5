"""What is exposed is what the catalogue says, and costs little to count and to read."""

import importlib
import subprocess
import sys
from collections.abc import Mapping

import aiohttp
import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from sandkeeper.cli import reference
from sandkeeper.telemetry import catalogue
from sandkeeper.telemetry.catalogue import CATALOGUE, Kind
from sandkeeper.telemetry.health import HealthServer
from sandkeeper.telemetry.memory import Capped
from sandkeeper.telemetry.metrics import EngineMetrics, Labelled, Metrics


def test_names_are_told_once_and_follow_the_conventions() -> None:
    names = [family.name for family in CATALOGUE]
    assert len(set(names)) == len(names)
    for family in CATALOGUE:
        assert family.name.startswith(("sandkeeper_", catalogue.PROCESS))
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert bool(family.buckets) == (family.kind is Kind.HISTOGRAM)
        assert list(family.buckets) == sorted(family.buckets)
        assert family.meaning.endswith(".")
    assert catalogue.RECONCILE_SECONDS.buckets[0] == catalogue.TIME_TO_READY.buckets[0] == 0.005


def test_the_reference_names_every_metric_with_its_labels() -> None:
    text = reference.files()["metrics.md"]
    for family in CATALOGUE:
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{family.name}` |")]
        assert line.count("|") == 5
        assert all(f"`{label}`: " in line for label in family.labels)


def test_whatever_is_made_is_in_the_catalogue() -> None:
    metrics = Metrics()
    EngineMetrics(metrics)
    known = {family.name: family for family in CATALOGUE}
    for found in metrics.registry.collect():
        name = found.name + ("_total" if found.type == "counter" else "")
        assert known[name].kind == found.type
        assert known[name].meaning == found.documentation


def test_a_child_is_made_once_and_then_only_found() -> None:
    metrics = Metrics()
    child = metrics.reconciles["success", "reuse"]
    child.inc()
    assert metrics.reconciles["success", "reuse"] is child
    labels = {"result": "success", "rule": "reuse"}
    assert metrics.registry.get_sample_value("sandkeeper_reconcile_total", labels) == 1
    assert isinstance(metrics.reconciles, Labelled)


def test_what_is_in_memory_is_read_with_each_scrape_and_not_before() -> None:
    metrics, asked = Metrics(), list[int]()
    found: dict[tuple[str, ...], float] = {("docker", "Ready", "default"): 3}

    def read() -> Mapping[tuple[str, ...], float]:
        asked.append(1)
        return found

    metrics.collect(catalogue.RUNTIMES, read)
    metrics.collect_one(catalogue.CLOCK_OFFSET, lambda: None)
    metrics.collect_one(catalogue.QUEUE_ADDS, lambda: 7)
    assert asked == []
    labels = {"backend": "docker", "phase": "Ready", "policy": "default"}
    assert metrics.registry.get_sample_value("sandkeeper_runtimes", labels) == 3
    found.clear()
    assert metrics.registry.get_sample_value("sandkeeper_runtimes", labels) is None
    assert metrics.registry.get_sample_value("sandkeeper_clock_offset_seconds") is None
    assert metrics.registry.get_sample_value("sandkeeper_workqueue_adds_total") == 7
    assert len(asked) >= 2


def test_names_beyond_the_first_are_others() -> None:
    names = Capped(2)
    assert names.label("never-seen", admit=False) == "other"
    assert [names.label(name) for name in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]
    assert names.label("b", admit=False) == "b"


async def page(metrics: Metrics, accept: str | None) -> tuple[str, str]:
    server = HealthServer(registry=metrics.registry, missing=list)
    port = await server.start(host="127.0.0.1", port=0)
    headers = {"Accept": accept} if accept else {}
    try:
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            assert answer.status == 200
            return answer.headers["Content-Type"], await answer.text()
    finally:
        await server.stop()


async def test_the_page_is_in_the_form_that_is_asked_for() -> None:
    metrics = Metrics()
    metrics.reconciles["success", "reuse"].inc()
    metrics.reconcile_seconds.observe(0.01, {"trace_id": "abc"})
    kind, text = await page(metrics, None)
    assert kind.startswith("text/plain")
    assert "trace_id" not in text
    assert list(parser.text_string_to_metric_families(text))
    # As Prometheus asks.
    asked = (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.4"
    )
    kind, text = await page(metrics, asked)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    buckets = [
        sample
        for family in openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        if family.name == "sandkeeper_reconcile_time_seconds"
        for sample in family.samples
        if sample.exemplar is not None
    ]
    assert [(sample.labels["le"], sample.exemplar.labels) for sample in buckets if sample.exemplar] == [
        ("0.01", {"trace_id": "abc"})
    ]


@pytest.mark.parametrize("module", ["sandkeeper.telemetry.metrics", "sandkeeper.telemetry.tracing"])
def test_telemetry_imports_nothing_optional(module: str) -> None:
    importlib.import_module(module)
    program = (
        f"import sys, {module}; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    # prometheus_client itself asks for nothing of it.
    assert found.stdout.strip() == "[]"
