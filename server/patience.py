"""How long a client may keep quiet, and how long it may leave a message unread.

One timer looks after both, some times a minute: to set one for each message and to take it back
costs more than the rest of what a session does with it.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

from cortado.server.protocol.messages import ErrorCode
from cortado.server.settings import Settings

SOONEST = 0.001  # seconds until the timer looks again


class Patience:
    """The two clocks of one connection; the first that runs out gives the client up."""

    def __init__(self, settings: Settings, give_up: Callable[[ErrorCode, str], None]) -> None:
        self._settings = settings
        self._give_up = give_up
        self._begun = False  # the client has said how its audio is to be read
        self._until: float | None = monotonic() + settings.start_timeout_seconds
        self._timer: asyncio.TimerHandle | None = None
        # A clock that is set later than the timer cannot run out before it.
        self._longest = min(
            settings.start_timeout_seconds,
            settings.idle_timeout_seconds,
            settings.send_timeout_seconds,
        )
        self.listening = False  # for the next message; else the client is not to blame
        self.sending: float | None = None  # since when (`monotonic`) a message is being sent

    def expect_audio(self) -> None:
        """Give the client its time for more audio, or the end."""
        self._begun = True
        self._until = monotonic() + self._settings.idle_timeout_seconds

    def expect_nothing(self) -> None:
        """Give the client all the time: it has ended its stream."""
        self._until = None

    def start(self) -> None:
        """Begin to look after the clocks."""
        now = monotonic()
        wait = self._longest
        if self.listening and self._until is not None:
            if self._until <= now:
                self._give_up(*self._quiet())
                return
            wait = min(wait, self._until - now)
        if self.sending is not None:
            seconds = self._settings.send_timeout_seconds
            if self.sending + seconds <= now:
                got = f"expected the client to read a message within {seconds:g} s, got no room"
                self._give_up(ErrorCode.SLOW_CLIENT, f"{got} for it")
                return
            wait = min(wait, self.sending + seconds - now)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(wait, SOONEST), self.start)

    def stop(self) -> None:
        """Look after them no longer."""
        if self._timer:
            self._timer.cancel()

    def _quiet(self) -> tuple[ErrorCode, str]:
        if not self._begun:
            seconds = self._settings.start_timeout_seconds
            return ErrorCode.START_TIMEOUT, f"expected start within {seconds:g} s, got nothing"
        seconds = self._settings.idle_timeout_seconds
        got = f"expected audio or end within {seconds:g} s, got neither"
        return ErrorCode.IDLE_TIMEOUT, got
