"""Audio as clients send it: bytes of some encoding in, bytes that the protocol reads out."""

from collections.abc import Iterator
from typing import cast

import numpy as np

from cortado.model.arrays import Samples
from cortado.model.audio.error import AudioError
from cortado.model.audio.frames import Channel
from cortado.model.audio.streamed import OpusPackets, StreamedAudio
from cortado.model.features.framing import SAMPLE_RATE
from cortado.server.protocol.messages import (
    SAMPLE_BYTES,
    Encoding,
    ErrorCode,
    ProtocolError,
    Start,
)
from cortado.server.protocol.pcm import samples_of

NAME = "audio"  # of the client's stream, in error messages


class Decoder:
    """Bytes of a stream to pieces of what the protocol reads; raw samples of one channel pass."""

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield what is complete with `data`, lazily.

        Raises: ProtocolError if it is not the audio that was announced.
        """
        yield data

    def end(self) -> Iterator[bytes]:
        """Yield the rest; of raw audio nothing, for an incomplete sample is dropped.

        Raises: ProtocolError as `push` does.
        """
        return iter(())

    def close(self) -> None:
        """Give back what it holds."""


class Interleaved(Decoder):
    """Raw samples of several channels: one of them, or their mean."""

    def __init__(self, encoding: str, channels: int, channel: Channel | None) -> None:
        self._encoding, self._channels, self._channel = encoding, channels, channel
        self._frame = SAMPLE_BYTES[encoding] * channels  # bytes
        self._rest = b""

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield the samples that are complete."""
        data = self._rest + data
        whole = len(data) - len(data) % self._frame
        self._rest = data[whole:]
        samples = samples_of(data[:whole], self._encoding).reshape(-1, self._channels)
        if self._channel is None:
            one = samples.mean(axis=1, dtype=np.float32)
        else:
            one = samples[:, self._channel.number]
        yield one.astype("<f4").tobytes()


class Compressed(Decoder):
    """Any other encoding, as samples at 16 kHz."""

    def __init__(self, source: StreamedAudio | OpusPackets) -> None:
        self._source = source

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield decoded pieces."""
        return _checked(self._source.push(data))

    def end(self) -> Iterator[bytes]:
        """Yield the last pieces."""
        return _checked(self._source.end())

    def close(self) -> None:
        """End the decoder."""
        self._source.close()


def _checked(pieces: Iterator[Samples]) -> Iterator[bytes]:
    try:
        for piece in pieces:
            yield piece.astype("<f4").tobytes()
    except AudioError as error:
        raise ProtocolError(ErrorCode.INVALID_AUDIO, str(error)) from None


def decoder(
    encoding: str | None,
    rate: int = SAMPLE_RATE,
    channels: int = 1,
    channel: Channel | None = None,
    **said: object,
) -> tuple[Start, Decoder]:
    """Return how a stream begins, and its decoder.

    Args:
        encoding: one of the protocol's, or None for whatever of the compressed ones the data is.
        rate: of a raw encoding, in Hz.
        channels: of a raw encoding.
        channel: the one to hear; None for the mean of all.
        said: other fields of `Start`, which are right.
    """
    start, source = Start(encoding="pcm_f32le"), Decoder()
    if encoding not in SAMPLE_BYTES:
        source = compressed(encoding, channel)
    elif channels == 1:
        start = Start(sample_rate=rate, encoding=cast(Encoding, encoding))
    else:
        start = Start(sample_rate=rate, encoding="pcm_f32le")
        source = Interleaved(encoding, channels, channel)
    return start.model_copy(update=said), source


def compressed(encoding: str | None, channel: Channel | None = None) -> Compressed:
    """Return the decoder of compressed audio to floats at 16 kHz; the arguments are `decoder`'s."""
    if encoding == "opus":
        return Compressed(OpusPackets(NAME, channel))
    return Compressed(StreamedAudio(NAME, encoding, channel))
