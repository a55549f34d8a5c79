"""Traces, as an OpenTelemetry collector gets them."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.tests.https import Quiet, answering
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import END, START, pcm, running, say

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextmanager
def collector(bodies: list[bytes]) -> Iterator[str]:
    """Run a collector that keeps what it gets; yield its address."""

    class Handler(Quiet):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

    with answering(Handler) as port:
        yield f"http://127.0.0.1:{port}/v1/traces"


def test_a_collector_gets_a_span_of_each_request_and_stream(online: ReferenceRecognizer) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    bodies: list[bytes] = []
    parent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    with collector(bodies) as address, running(online, traces=address, headroom=1) as server:
        say(server.url, START, pcm(noise(1, 1.0)), END, additional_headers=parent)
        assert httpx.get(f"{server.page}/v1/info").status_code == 200
        assert httpx.get(f"{server.page}/health").status_code == 200
        # A server that has stopped has sent all.
    spans = [
        span
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert len(spans) == 3, [one.name for one in spans]
    assert "GET /v1/info" in [one.name for one in spans]
    [stream] = [one for one in spans if one.name == "stream"]
    [connection] = [one for one in spans if one.name.endswith("/v1/stream")]
    assert (connection.trace_id.hex(), connection.parent_span_id.hex()) == (TRACE, PARENT)
    assert stream.parent_span_id == connection.span_id
    facts = {one.key: one.value for one in stream.attributes}
    assert facts["cortado.ending"].string_value == "final"
    assert facts["cortado.seconds"].double_value == 1.0
    assert facts["cortado.characters"].int_value > 0
