"""How fast the audio of one stream may come."""

BURST_SECONDS = 60.0  # of audio that may come at once


class Pace:
    """A stream's audio against the clock: who sends far ahead of real time is read more slowly."""

    def __init__(self, speed: float) -> None:
        """Let so many seconds of audio come in a second, after the first burst; 0 for any."""
        self._speed = speed
        self._due = 0.0  # when what has come would have come at that speed

    def wait(self, seconds: float, now: float) -> float:
        """Count seconds of audio that have come; return how long to wait before the next."""
        if not self._speed:
            return 0.0
        self._due = max(self._due, now) + seconds / self._speed
        return max(0.0, self._due - now - BURST_SECONDS / self._speed)
