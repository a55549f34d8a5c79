"""OpenTelemetry's traces, where a collector is named: a span of each request and of each stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

NAME = "cortado"
UNTRACED = "/(health|ready|metrics)$"  # which are asked for all the time
SECONDS = 2.0  # that a collector may take: a server that stops does not wait for one that is away


class Tracing:
    """Sends spans to a collector."""

    def __init__(self, collector: str) -> None:
        """Send to the address of OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces.

        Raises: ValueError if what does so is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
            from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            expected = "expected the extra cortado-asr[otel] for traces"
            raise ValueError(f"{expected}, got none: {error}") from error
        facts = {SERVICE_NAME: NAME, SERVICE_VERSION: version("cortado-asr")}
        self._provider = TracerProvider(resource=Resource.create(facts))
        exporter = OTLPSpanExporter(collector, timeout=SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer, self._middleware = self._provider.get_tracer(NAME), OpenTelemetryMiddleware

    def add_to(self, app: FastAPI) -> None:
        """Trace the requests of `app`, as children of their callers' spans."""
        app.add_middleware(
            self._middleware,
            excluded_urls=UNTRACED,
            tracer_provider=self._provider,
            exclude_spans=["receive", "send"],
        )

    @contextmanager
    def stream(self, session: str, facts: dict[str, Any]) -> Iterator[None]:
        """Trace a stream; what is in `facts` after the block is told of it."""
        with self._tracer.start_as_current_span("stream") as span:
            try:
                yield
            finally:
                told = {"session": session, **facts}
                span.set_attributes({f"{NAME}.{name}": value for name, value in told.items()})

    def stop(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
