"""Our own language, docs/protocol.md, with compressed audio besides raw."""

from collections.abc import Iterator

from cortado.server.doors.audio import Decoder, compressed
from cortado.server.protocol.dialect import Dialect, Read, Written
from cortado.server.protocol.events import Processed
from cortado.server.protocol.messages import (
    SAMPLE_BYTES,
    AnyEncoding,
    End,
    ErrorCode,
    ProtocolError,
    Ready,
    Resume,
    Start,
    Suspend,
)
from cortado.server.protocol.parsing import parse_client


class Own(Dialect):
    """The dialect of one connection."""

    def __init__(self) -> None:
        self._encoding: AnyEncoding = "pcm_s16le"
        self._decoder: Decoder | None = None  # of compressed audio

    def read(self, data: str | bytes) -> Iterator[Read]:
        """Yield what a message means: itself, with compressed audio decoded."""
        message = data if isinstance(data, bytes) else parse_client(data)
        if self._decoder is None:
            yield self._begun(message) if isinstance(message, Start | Resume) else message
        elif isinstance(message, bytes):
            yield from self._decoder.push(message)
        elif isinstance(message, Suspend):
            raise _not_raw("suspend a stream", self._encoding)
        else:
            if isinstance(message, End):
                yield from self._decoder.end()
            yield message

    def write(self, message: Written) -> Iterator[str]:
        """Yield the message itself."""
        if isinstance(message, Ready) and self._decoder:
            message = message.model_copy(update={"encoding": self._encoding})
        if not isinstance(message, Processed):
            yield message.model_dump_json(exclude_none=True)

    def close(self) -> None:
        """End the decoder."""
        if self._decoder:
            self._decoder.close()

    def _begun(self, message: Start | Resume) -> Start | Resume:
        """Return how the stream begins for who reads what a decoder gives, if it needs one.

        Raises: ProtocolError if such a stream cannot be decoded, or not be kept.
        """
        if message.encoding in SAMPLE_BYTES:
            return message
        if message.keep or (isinstance(message, Resume) and message.token):
            raise _not_raw("keep a stream", message.encoding)
        if "sample_rate" in message.model_fields_set:
            expected = f"expected no sample_rate beside {message.encoding}, whose data says it"
            raise ProtocolError(ErrorCode.UNSUPPORTED_SAMPLE_RATE, f"{expected}, got one")
        self._encoding, self._decoder = message.encoding, compressed(message.encoding)
        return message.model_copy(update={"encoding": "pcm_f32le"})


def _not_raw(what: str, encoding: str) -> ProtocolError:
    expected = f"expected a raw encoding to {what} ({', '.join(SAMPLE_BYTES)})"
    return ProtocolError(ErrorCode.UNSUPPORTED_ENCODING, f"{expected}, got {encoding}")
