"""The delays of live streams: percentiles, and whether a number of streams was carried."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TARGET = 0.1  # seconds: the p99 up to which streams count as carried

# Streams begin one after the other. One that begins within a word takes twice as long for a second,
# in which the search knows little: of thousands of people nobody begins together with all others.
BEGIN = 4.0  # seconds within which they do
WARM_UP = 6.0  # seconds that are not counted: until all run, and the batching window has adapted


@dataclass(frozen=True)
class Point:
    """The delays of live streams from audio to result, in seconds."""

    part: str
    backend: str
    chunk_ms: int
    streams: int
    seconds: float  # measured
    p50: float
    p95: float
    p99: float
    worst: float
    steps: int  # measured; messages for websockets
    busy: float  # processor seconds of the process per second
    server_bytes: int = 0  # resident in the server after these streams; 0 for the engine alone

    @property
    def carried(self) -> bool:
        """Whether the streams were carried."""
        return self.p99 <= TARGET


def percentiles(delays: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Return p50, p95, p99 and the greatest of (N,) delays; infinite for none."""
    if not len(delays):
        return (float("inf"),) * 4
    p50, p95, p99 = np.percentile(delays, [50, 95, 99])
    return float(p50), float(p95), float(p99), float(delays.max())
