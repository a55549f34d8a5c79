"""Audio as doors get it: bytes of some encoding in, bytes that the protocol reads out."""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cortado.model.audio.decode import AudioError, Samples
from cortado.model.audio.streamed import OpusPackets, StreamedAudio
from cortado.model.audio.telephone import linear
from cortado.model.features.framing import SAMPLE_RATE
from cortado.server.protocol.messages import (
    Encoding,
    ErrorCode,
    ProtocolError,
    Start,
)

NAME = "audio"  # of the client's stream, in error messages


class Decoder(Protocol):
    """Bytes of a stream to pieces of what the protocol reads."""

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield what is complete with `data`, lazily.

        Raises:
            ProtocolError: it is not the audio that was announced.
        """
        ...

    def end(self) -> Iterator[bytes]:
        """Yield the rest.

        Raises:
            ProtocolError: as `push` does.
        """
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Pcm:
    """Samples in a raw encoding; several interleaved channels become their mean."""

    def __init__(self, read: Callable[[bytes], Samples], size: int, channels: int) -> None:
        """Read frames of `channels` samples of `size` bytes each."""
        self._read, self._frame, self._channels = read, size * channels, channels
        self._rest = b""

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that are complete."""
        data = self._rest + data
        whole = len(data) - len(data) % self._frame
        self._rest = data[whole:]
        samples = self._read(data[:whole]).reshape(-1, self._channels)
        yield samples.mean(axis=1, dtype=np.float32).astype("<f4").tobytes()

    def end(self) -> Iterator[bytes]:
        """Yield nothing: an incomplete frame is dropped."""
        return iter(())

    def close(self) -> None:
        """Do nothing."""


class Plain(Pcm):
    """Samples in an encoding of the protocol's own: they pass as they are."""

    def __init__(self) -> None: ...

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield the data."""
        yield data


class Compressed:
    """Any other encoding, as samples at 16 kHz."""

    def __init__(self, source: StreamedAudio | OpusPackets) -> None:
        self._source = source
        self.close = source.close

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield decoded pieces."""
        return _checked(self._source.push(data))

    def end(self) -> Iterator[bytes]:
        """Yield the last pieces."""
        return _checked(self._source.end())


def _checked(pieces: Iterator[Samples]) -> Iterator[bytes]:
    try:
        for piece in pieces:
            yield piece.astype("<f4").tobytes()
    except AudioError as error:
        raise ProtocolError(ErrorCode.INVALID_AUDIO, str(error)) from None


def _scaled(samples: NDArray[np.int16]) -> Samples:
    return samples.astype(np.float32) / np.float32(32768)


# Raw encodings: bytes of a sample, and how samples are read.
RAW: dict[str, tuple[int, Callable[[bytes], Samples]]] = {
    "pcm_s16le": (2, lambda data: _scaled(np.frombuffer(data, "<i2"))),
    "pcm_f32le": (4, lambda data: np.frombuffer(data, "<f4")),
    "mulaw": (1, lambda data: _scaled(linear(data, "mulaw"))),
    "alaw": (1, lambda data: _scaled(linear(data, "alaw"))),
}
PLAIN: dict[str, Encoding] = {"pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le"}
CONTAINERS = ("ogg", "webm", "flac", "wav", "mp4", "mp3", "aac")


def decoder(
    encoding: str | None, rate: int = SAMPLE_RATE, channels: int = 1, *, endpoints: bool = True
) -> tuple[Start, Decoder]:
    """Return how a stream begins, and its decoder.

    Args:
        encoding: one of `RAW`, `opus` for bare packets, one of `CONTAINERS`, or None for whatever
            of these the data is.
        rate: of a raw encoding, in Hz.
        channels: of a raw encoding.
        endpoints: whether the stream is divided into utterances.
    """
    if encoding not in RAW:
        source = OpusPackets(NAME) if encoding == "opus" else StreamedAudio(NAME, encoding)
        return Start(encoding="pcm_f32le", endpoints=endpoints), Compressed(source)
    if encoding in PLAIN and channels == 1:
        start = Start(sample_rate=rate, encoding=PLAIN[encoding], endpoints=endpoints)
        return start, Plain()
    size, read = RAW[encoding]
    start = Start(sample_rate=rate, encoding="pcm_f32le", endpoints=endpoints)
    return start, Pcm(read, size, channels)
