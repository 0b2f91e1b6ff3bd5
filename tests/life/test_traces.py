"""A real operator traces its passes, and its metrics name the traces."""

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.operator import OperatorFactory, Sandboxes
from support.waiting import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Collector(ThreadingHTTPServer):
    """Takes traces in, as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.keys: dict[str, str] = {}
        """Of passes, by the ids of their traces."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    found = {each.key: each.value.string_value for each in span.attributes}
                    self.server.keys[span.trace_id.hex()] = found["key"]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        thread = Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def exemplars(page: str) -> set[str]:
    return set(
        re.findall(r'sandkeeper_reconcile_time_seconds_bucket\{.*# \{trace_id="([0-9a-f]{32})"\}', page)
    )


def test_passes_are_traced_where_the_environment_says_so(
    operator_factory: OperatorFactory, sandboxes: Sandboxes, collector: Collector
) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    operator = operator_factory(env=env, lease=False).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    named = exemplars(operator.read("/metrics", accept=OPENMETRICS))
    assert named
    wait_for(lambda: named <= collector.keys.keys(), what="the traces that are named have come")
    assert f"{sandboxes.namespace}/default/agent:rain" in collector.keys.values()
    assert operator.stop() == 0


def test_a_collector_that_is_not_there_holds_nobody_up(
    operator_factory: OperatorFactory, sandboxes: Sandboxes
) -> None:
    operator = operator_factory(
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"},
        lease=False,
    ).wait_ready()
    sandboxes.apply(sandboxes.policy(), sandboxes.sandbox("rain"))
    sandboxes.wait("rain", "Running")
    assert operator.stop() == 0
