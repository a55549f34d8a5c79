"""Deadlines of a conversation: when a silent or slow client is disconnected."""

from math import inf

from cortado.server.protocol.limits import Limits
from cortado.server.protocol.messages import ErrorCode, ProtocolError


class Deadlines:
    """The deadlines of one connection, in seconds of its shell's clock; `inf` for none."""

    def __init__(self, limits: Limits, now: float) -> None:
        """Expect the first message, from `now` on."""
        self._limits = limits
        # A deadline that is set later than a timer cannot pass before that timer.
        self._shortest = min(
            limits.start_timeout_seconds, limits.idle_timeout_seconds, limits.send_timeout_seconds
        )
        self.handling = False  # a message is being handled: the client is not to blame
        self._opened = False  # audio is expected, not the first message any more
        self._input = now + limits.start_timeout_seconds
        self._output = inf
        self._stream = now + (limits.max_stream_seconds or inf)
        self._close = inf
        self._stopped = False  # the conversation is over: only its close has a deadline

    def expect_audio(self, now: float) -> None:
        """Restart the time in which the client has to send audio, `keep_alive` or `end`."""
        self._opened = True
        self._input = inf if self._stopped else now + self._limits.idle_timeout_seconds

    def expect_nothing(self) -> None:
        """Drop the deadline for audio: the client has ended its stream."""
        self._input = inf

    def send(self, now: float) -> None:
        """Expect the client to read a message."""
        self._output = inf if self._stopped else now + self._limits.send_timeout_seconds

    def sent(self) -> None:
        """Drop the deadline for reading: the client has read the message."""
        self._output = inf

    def stop(self) -> None:
        """Drop all deadlines."""
        self._stopped = True
        self._input = self._output = self._stream = self._close = inf

    def close(self, now: float) -> None:
        """Set the deadline for reading the last messages."""
        self._close = now + self._limits.send_timeout_seconds

    def closed(self, now: float) -> bool:
        """Return whether the deadline for reading the last messages has passed."""
        return self._close <= now

    def next(self, now: float) -> float:
        """Return the time of the next check; no deadline can pass before it."""
        waiting = inf if self.handling else self._input
        return min(now + self._shortest, waiting, self._output, self._stream, self._close)

    def expired(self, now: float) -> ProtocolError | None:
        """Return the error of the deadline that has passed `now`, or None."""
        if self._input <= now and not self.handling:
            return self._silent()
        if self._output <= now:
            seconds = self._limits.send_timeout_seconds
            expected = f"expected the client to read a message within {seconds:g} s"
            return ProtocolError(ErrorCode.SLOW_CLIENT, f"{expected}, got no room for it")
        return too_long(self._limits) if self._stream <= now else None

    def _silent(self) -> ProtocolError:
        if not self._opened:
            seconds = self._limits.start_timeout_seconds
            message = f"expected a stream to begin within {seconds:g} s, got none"
            return ProtocolError(ErrorCode.START_TIMEOUT, message)
        seconds = self._limits.idle_timeout_seconds
        message = f"expected audio or a sign of life within {seconds:g} s, got none"
        return ProtocolError(ErrorCode.IDLE_TIMEOUT, message)


def too_long(limits: Limits) -> ProtocolError:
    """Return the error of a stream that lasts too long, in audio or by the clock."""
    expected = f"expected a stream of at most {limits.max_stream_seconds:g} s"
    return ProtocolError(ErrorCode.STREAM_TOO_LONG, f"{expected}, got a longer one")
