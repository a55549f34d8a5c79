"""What the server counts for Prometheus, on a registry of its own; docs/metrics.md lists it."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# One step is 40 ms of audio: a server that keeps up has its steps far below that, and the delays
# below 300 ms, where a reader begins to notice.
STEP_BUCKETS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.1, 0.25, 1.0)
DELAY_BUCKETS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.0, 2.0, 5.0, 10.0, 30.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
DURATION_BUCKETS = (1, 3, 10, 30, 60, 300, 900, 3600, 14_400)


class Metrics:
    """The server's counters; every method of them may be called from any thread."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.active = Gauge("cortado_streams_active", "Live streams.", registry=registry)
        self.endings = Counter(
            "cortado_streams",
            "Streams that were let in and are over, by how they ended:"
            " final, disconnected or an error code.",
            ["ending"],
            registry=registry,
        )
        self.refused = Counter(
            "cortado_connections_refused",
            "Connections that were not let in, by reason.",
            ["reason"],
            registry=registry,
        )
        self.errors = Counter(
            "cortado_errors",
            "Error messages sent to clients, by code.",
            ["code"],
            registry=registry,
        )
        self.audio = Counter(
            "cortado_audio_seconds", "Seconds of audio received.", registry=registry
        )
        self.characters = Counter("cortado_characters", "Characters decided.", registry=registry)
        self.duration = Histogram(
            "cortado_stream_duration_seconds",
            "Seconds of audio in a stream that is over.",
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.batch = Histogram(
            "cortado_step_batch_streams",
            "Streams that one step of the model served together.",
            buckets=BATCH_BUCKETS,
            registry=registry,
        )
        self.step = Histogram(
            "cortado_step_duration_seconds",
            "Seconds that one step of the model took; each stream in it advances by 0.04 s.",
            buckets=STEP_BUCKETS,
            registry=registry,
        )
        self.delay = Histogram(
            "cortado_processing_delay_seconds",
            "Seconds from the arrival of audio that completes a step to its result, per stream and"
            " step; high while a client sends faster than real time.",
            buckets=DELAY_BUCKETS,
            registry=registry,
        )

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
