"""Samples as files of many formats, made by the FFmpeg of PyAV."""

import io
import struct
import wave

import av
import numpy as np
from av.audio.stream import AudioStream

from cortado.model.arrays import Samples
from cortado.tests.server.running import pcm

CODECS = {  # and FFmpeg's names of containers
    "ogg": ("libopus", "ogg"),
    "webm": ("libopus", "webm"),
    "flac": ("flac", "flac"),
    "mp3": ("mp3", "mp3"),
    "aac": ("aac", "adts"),
    "m4a": ("aac", "mp4"),
    "fragments": ("aac", "mp4"),  # as a stream has it
}


class Pipe(io.BytesIO):
    """What a browser or a pipe writes into: it cannot go back."""

    def seekable(self) -> bool:
        return False


def wav(*channels: Samples, rate: int = 16_000) -> bytes:
    """Return (N,) samples of each channel as a WAV file of 16-bit integers."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((len(channels), 2, rate, 0, "NONE", ""))
        writer.writeframes(pcm(np.stack(channels, axis=1).ravel()))
    return file.getvalue()


def encoded(samples: Samples, kind: str, rate: int = 16_000, *, live: bool = True) -> bytes:
    """Return (N,) samples as a file of a kind, or of `codec/container`; a stream if `live`."""
    codec, container = CODECS[kind] if kind in CODECS else kind.split("/")
    file = Pipe() if live else io.BytesIO()
    options = {"movflags": "frag_keyframe+empty_moov"} if kind == "fragments" else {}
    with av.open(file, "w", format=container, options=options) as output:
        stream = output.add_stream(codec, rate=rate)
        assert isinstance(stream, AudioStream)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(
            np.frombuffer(pcm(samples), "<i2")[None], format="s16", layout="mono"
        )
        frame.sample_rate, frame.pts = rate, 0
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            output.mux(packet)
    return file.getvalue()


def fragment(packets: int, data: bytes) -> bytes:
    """Return an mp4 that begins as AAC in fragments, with one of so many packets of two bytes."""
    whole = encoded(np.zeros(4000, np.float32), "fragments")
    first = whole.find(b"moof") - 4
    track = struct.pack(">I4sIIII", 28, b"tfhd", 0x20018, 1, 1, 2) + bytes(4)
    run = struct.pack(">I4sIII", 20, b"trun", 1, packets, 8 + 16 + 8 + 28 + 20 + 8)
    part = struct.pack(">I4s", 8 + len(track + run), b"traf") + track + run
    part = struct.pack(">I4sII", 16, b"mfhd", 0, 1) + part
    head = struct.pack(">I4s", 8 + len(part), b"moof") + part
    return whole[:first] + head + struct.pack(">I4s", 8 + len(data), b"mdat") + data
