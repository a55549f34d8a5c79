"""How a client speaks: its messages to those of `/v1/stream`, and those back to its own.

A door of `server/doors/` is a dialect: a translator without socket, clock or model. The order of
messages, the limits, the deadlines and the engine stay in `ServerProtocol` and its shell.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cortado.server.protocol.events import Processed, WhenProcessed
from cortado.server.protocol.messages import ClientMessage, ServerMessage


class Reply(NamedTuple):
    """A text that answers the client at once, whatever the recogniser does."""

    text: str


Read = ClientMessage | WhenProcessed | Reply | bytes  # bytes are audio, in the encoding of `start`
Written = ServerMessage | Processed


class Dialect(ABC):
    """One client's language."""

    def greeting(self) -> list[str]:
        """Return the texts to send before the client's first message: none, if it begins."""
        return []

    @abstractmethod
    def read(self, data: str | bytes) -> Iterator[Read]:
        """Yield the meaning of a client's message; large audio comes in pieces, lazily.

        Raises: ProtocolError if the message is not understood.
        """

    @abstractmethod
    def write(self, message: Written) -> Iterable[str]:
        """Return a message as texts in the client's language; there may be none."""

    def close(self) -> None:  # noqa: B027
        """Give back what a decoder holds: the conversation is over, however it ended."""
