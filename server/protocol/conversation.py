"""The order of a client's messages."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.server.protocol.messages import (
    DEFAULT_SAMPLE_RATE,
    ClientMessage,
    End,
    ErrorCode,
    ProtocolError,
    Resume,
    Start,
    Suspend,
    parse_client,
)
from cortado.server.protocol.pcm import PcmDecoder


class Audio(NamedTuple):
    """A binary frame, decoded."""

    samples: NDArray[np.float32]  # (N,) in [-1, 1], at the rate of `start`


class Conversation:
    """The order of one client's messages.

    `start` or `resume`, then audio, then `end` or `suspend`, then nothing.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self.start: Start | None = None
        self.ended = False
        self.samples = 0  # received, at the rate of `start`
        self._max_message_bytes = max_message_bytes
        self._decoder = PcmDecoder("pcm_s16le")

    @property
    def duration(self) -> float:
        """Seconds of audio received."""
        return self.samples / self.start.sample_rate if self.start else 0.0

    def receive(self, data: str | bytes) -> Start | Resume | Audio | Suspend | End:
        """Return what a text or binary frame means at this point of the conversation.

        Raises:
            ProtocolError: it means nothing here.
        """
        size = len(data if isinstance(data, bytes) else data.encode(errors="surrogatepass"))
        if size > self._max_message_bytes:
            expected = f"expected messages of at most {self._max_message_bytes} bytes"
            raise ProtocolError(ErrorCode.MESSAGE_TOO_BIG, f"{expected}, got {size}")
        message = data if isinstance(data, bytes) else parse_client(data)
        if self.ended:
            raise _unexpected("nothing after end", message)
        if self.start is None:
            return self._begin(message)
        if isinstance(message, bytes):
            samples = self._decoder.decode(message)
            self.samples += len(samples)
            return Audio(samples)
        if isinstance(message, Start | Resume):
            raise _unexpected("audio or end", message)
        if isinstance(message, Suspend) and self.start.sample_rate != DEFAULT_SAMPLE_RATE:
            expected = f"expected a stream at {DEFAULT_SAMPLE_RATE} Hz to suspend"
            got = f"one at {self.start.sample_rate} Hz, whose resampler stays with the server"
            raise ProtocolError(ErrorCode.UNSUPPORTED_SAMPLE_RATE, f"{expected}, got {got}")
        self.ended = True
        return message

    def _begin(self, message: ClientMessage | bytes) -> Start | Resume:
        if isinstance(message, Start):
            self.go_on(message, 0)
        elif not isinstance(message, Resume):
            raise _unexpected("start or resume", message)
        return message

    def go_on(self, start: Start, samples: int) -> None:
        """Expect audio as `start` says, after `samples` of it that were received before."""
        self.start, self.samples = start, samples
        self._decoder = PcmDecoder(start.encoding)


def _unexpected(expected: str, message: ClientMessage | bytes) -> ProtocolError:
    got = "audio" if isinstance(message, bytes) else message.type
    return ProtocolError(ErrorCode.UNEXPECTED_MESSAGE, f"expected {expected}, got {got}")
