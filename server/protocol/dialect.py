"""How a client speaks: its messages to those of `/v1/stream`, and those back to its own.

A door of `server/doors/` is a dialect: a translator without socket, clock or model. The order of
messages, the limits, the deadlines and the engine stay in `ServerProtocol` and its shell.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from cortado.server.protocol.events import Processed, WhenProcessed
from cortado.server.protocol.messages import ClientMessage, ServerMessage, parse_client


class Reply(NamedTuple):
    """A text that answers the client at once, whatever the recogniser does."""

    text: str


Read = ClientMessage | WhenProcessed | Reply | bytes  # bytes are audio, in the encoding of `start`
Written = ServerMessage | Processed


class Dialect(Protocol):
    """One client's language."""

    def greeting(self) -> list[str]:
        """Return the texts to send before the client's first message."""
        ...

    def read(self, data: str | bytes) -> Iterator[Read]:
        """Yield the meaning of a client's message; large audio comes in pieces, lazily.

        Raises:
            ProtocolError: the message is not understood.
        """
        ...

    def write(self, message: Written) -> Iterable[str]:
        """Return a message as texts in the client's language; there may be none."""
        ...

    def close(self) -> None:
        """Give back what a decoder holds: the conversation is over, however it ended."""
        ...


class Own:
    """The language of docs/protocol.md."""

    def greeting(self) -> list[str]:
        """Return nothing: the client begins."""
        return []

    def read(self, data: str | bytes) -> Iterator[Read]:
        """Yield the message itself."""
        yield data if isinstance(data, bytes) else parse_client(data)

    def write(self, message: Written) -> Iterable[str]:
        """Return the message itself."""
        return (
            () if isinstance(message, Processed) else (message.model_dump_json(exclude_none=True),)
        )

    def close(self) -> None:
        """Do nothing."""
