"""The server's Prometheus metrics, in a registry of their own; docs/metrics.md lists them."""

import threading
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from cortado.server.protocol.messages import ErrorCode

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# One step is 40 ms of audio: a server that keeps up has its steps far below that, and the delays
# below 300 ms, where a reader begins to notice.
STEP_BUCKETS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.1, 0.25, 1.0)
DELAY_BUCKETS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.15, 0.3, 0.6, 1.0, 2.0, 5.0, 10.0, 30.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
DURATION_BUCKETS = (1, 3, 10, 30, 60, 300, 900, 3600, 14_400)

REFUSALS = (
    *("origin", "unknown_host", "key", "short_lived_secret", "too_many_streams_of_key"),
    *("too_many_streams_of_address", "too_many_connections", "too_many_connections_of_address"),
    *(ErrorCode.TOO_MANY_STREAMS, ErrorCode.SHUTTING_DOWN, ErrorCode.INTERNAL_ERROR),
    *(ErrorCode.INVALID_MESSAGE, ErrorCode.INVALID_STATE, ErrorCode.UNKNOWN_STREAM),
)
ENDINGS = ("final", "suspended", "disconnected", *ErrorCode)


class ManyHistogram(Collector):
    """A histogram that takes many values at once."""

    def __init__(
        self, name: str, documentation: str, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._documentation = name, documentation
        self._bounds = np.array(buckets)
        self._counts = np.zeros(len(buckets) + 1, np.int64)  # the last is beyond all bounds
        self._sum = 0.0
        self._lock = threading.Lock()  # after a reload two engines count for a while
        registry.register(self)

    def observe_many(self, values: NDArray[np.float64]) -> None:
        """Count (N,) values."""
        places = np.searchsorted(self._bounds, values)
        counts = np.bincount(places, minlength=len(self._counts))
        with self._lock:
            self._counts += counts
            self._sum += float(values.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the histogram in Prometheus' form."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        with self._lock:
            counts, total = np.cumsum(self._counts).tolist(), self._sum
        yield HistogramMetricFamily(
            self._name,
            self._documentation,
            buckets=list(zip(names, counts, strict=True)),
            sum_value=total,
        )


class Metrics:
    """The server's counters; every method of them may be called from any thread."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a gauge beside each counter, which nobody asks for
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        gauge = partial(Gauge, registry=registry)
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.build = gauge(
            "cortado_build_info",
            "1, with the version, the model and the backend as labels.",
            ["version", "model", "backend"],
        )
        self.active = gauge("cortado_streams_active", "Live streams.")
        self.endings = counter(
            "cortado_streams",
            "Streams that were let in and are over, by how they ended:"
            " final, suspended, disconnected or an error code.",
            ["ending"],
        )
        self.refused = counter(
            "cortado_connections_refused",
            "Connections that were not let in, by reason.",
            ["reason"],
        )
        self.errors = counter(
            "cortado_errors", "Error messages sent to clients, by code.", ["code"]
        )
        self.audio = counter("cortado_audio_seconds", "Seconds of audio received.")
        self.characters = counter("cortado_characters", "Characters committed.")
        self.duration = histogram(
            "cortado_stream_duration_seconds",
            "Seconds of audio in a stream whose connection is over, from its beginning on.",
            buckets=DURATION_BUCKETS,
        )
        self.batch = histogram(
            "cortado_step_batch_streams",
            "Streams that one step of the model served together.",
            buckets=BATCH_BUCKETS,
        )
        self.step = histogram(
            "cortado_step_duration_seconds",
            "Seconds that one step of the model took; each stream in it advances by 0.04 s.",
            buckets=STEP_BUCKETS,
        )
        self.capacity = gauge(
            "cortado_streams_capacity",
            "Live streams that the engine lets in: what it measured that it can carry, at most"
            " max_streams.",
        )
        self.cost = gauge(
            "cortado_step_cost_seconds",
            "Seconds of the model for one stream's step in a large batch, as measured last.",
        )
        self.delay = ManyHistogram(
            "cortado_processing_delay_seconds",
            "Seconds from the arrival of audio that completes a step to its result, per stream and"
            " step; high while a client sends faster than real time.",
            buckets=DELAY_BUCKETS,
            registry=registry,
        )

        self.resumed = counter(
            "cortado_streams_resumed", "Streams that went on over another connection."
        )
        self.store_failures = counter(
            "cortado_store_failures", "Reads and writes of the store of lost streams that failed."
        )
        self.recordings_failed = counter(
            "cortado_recordings_failed", "Recordings of streams that could not be written."
        )

        # A counter that begins with its first event does not grow by it.
        for labelled, values in (
            (self.refused, REFUSALS),
            (self.endings, ENDINGS),
            (self.errors, ErrorCode),
        ):
            for value in values:
                labelled.labels(str(value))

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
