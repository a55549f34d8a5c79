"""Files as recorders leave them: with a late start, a hole, or a film's picture beside them."""

import tracemalloc
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer

from cortado.model.arrays import Samples
from cortado.model.audio.decode import stream


def tone(rate: int, seconds: float) -> Samples:
    """A 300 Hz tone."""
    return (0.3 * np.sin(2 * np.pi * 300 * np.arange(round(rate * seconds)) / rate)).astype("f4")


def record(
    path: Path,
    codec: str,
    rate: int = 48_000,
    seconds: float = 6.0,
    container: str | None = None,
    *,
    start: float = 0.0,
    hole: tuple[float, float] = (0.0, 0.0),
    film: bool = False,
    live: bool = False,
) -> Path:
    """Write a tone that begins at `start`, without the packets that lie in the hole."""
    options = {"movflags": "frag_keyframe+empty_moov", "live": "1"} if live else {}
    with av.open(path, "w", format=container, options=options) as output:
        if film:
            picture = _picture(output, start + seconds)
        audio = output.add_stream(codec, rate=rate)
        assert isinstance(audio, AudioStream)
        audio.layout = "mono"
        if codec == "wmav2":
            audio.bit_rate = 64_000  # it has no default for one channel
        values = (tone(rate, seconds) * 32767).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(values, "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        if film:
            output.mux(picture)
        for packet in [*audio.encode(frame), *audio.encode(None)]:
            assert packet.pts is not None
            if not hole[0] <= packet.pts * packet.time_base < hole[1]:
                packet.pts += round(start / packet.time_base)
                packet.dts = packet.pts
                output.mux(packet)
    return path


def _picture(output: OutputContainer, seconds: float) -> "list[av.Packet[av.VideoStream]]":
    """Add a black picture to a file; return its packets."""
    video = output.add_stream("mpeg4", rate=10)
    video.width = video.height = 64
    video.pix_fmt = "yuv420p"
    packets = []
    for number in range(round(seconds * 10)):
        frame = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), "rgb24")
        frame.pts, frame.time_base = number, Fraction(1, 10)
        packets += video.encode(frame)
    return [*packets, *video.encode(None)]


def streamed(path: Path) -> tuple[int, int]:
    """Return the samples of a file that is streamed, and the bytes that it took at most."""
    tracemalloc.start()
    try:
        count = sum(len(piece) for piece in stream(path))
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
