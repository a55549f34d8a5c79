"""The queue of messages to one client, bounded in characters."""

from collections import deque
from collections.abc import Iterator

from cortado.server.protocol.dialect import Reply, Written
from cortado.server.protocol.messages import Chars, ErrorCode, ProtocolError

MAX_REPLIES = 256  # that may wait for a client

Queued = Written | Reply


class SendQueue:
    """Messages in order; characters that wait are joined into one message.

    A client that reads gets every character at once. One that is busy gets fewer and longer
    messages. One that does not read holds a bounded number of characters here. What it has missed
    is not counted: it was written before the client came back, and is made when it is its turn.
    """

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._messages: deque[Queued | Iterator[Queued]] = deque()
        self._characters = 0  # that wait
        self._replies = 0  # that wait

    def __bool__(self) -> bool:
        """Whether anything may wait; `pop` finds out what is left of `add_missed`."""
        return bool(self._messages)

    def add_missed(self, messages: Iterator[Queued]) -> None:
        """Put what a client has missed at the end."""
        self._messages.append(messages)

    def add(self, message: Queued) -> None:
        """Put `message` at the end.

        Raises: ProtocolError if more characters or replies would wait than are allowed.
        """
        if isinstance(message, Reply):
            self._replies += 1
            if self._replies > MAX_REPLIES:
                expected = f"expected at most {MAX_REPLIES} answers to wait for the client"
                raise ProtocolError(ErrorCode.SLOW_CLIENT, f"{expected}, got one more")
        if isinstance(message, Chars):
            waiting = self._characters + len(message.text)
            if waiting > self._max_characters:
                raise ProtocolError(
                    ErrorCode.SLOW_CLIENT,
                    f"expected at most {self._max_characters} characters to wait for the client,"
                    f" got {waiting}",
                )
            self._characters = waiting
            if self._messages and isinstance(last := self._messages[-1], Chars):
                message = _joined(last, message)
                self._messages.pop()
        self._messages.append(message)

    def pop(self) -> Queued | None:
        """Take the first message out and return it; None if nothing waits."""
        while self._messages:
            first = self._messages[0]
            if not isinstance(first, Iterator):
                self._messages.popleft()
                self._characters -= len(first.text) if isinstance(first, Chars) else 0
                self._replies -= isinstance(first, Reply)
                return first
            if (message := next(first, None)) is not None:
                return message
            self._messages.popleft()
        return None


def _joined(first: Chars, second: Chars) -> Chars:
    return Chars(
        text=first.text + second.text,
        times=first.times + second.times,
        confidences=first.confidences + second.confidences,
        position=second.position,
    )
