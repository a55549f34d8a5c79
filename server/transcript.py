"""The transcript of one stream as `final` tells it, bounded however long the stream lasts."""

from array import array

from server.protocol import Final


class Transcript:
    """The last characters of a stream and their times."""

    def __init__(self, max_characters: int) -> None:
        """Keep `max_characters`, and up to an eighth more in between."""
        self.characters = 0  # of the stream
        self._max_characters = max_characters
        self._text: list[str] = []  # characters, of which Python keeps one each
        self._times = array("d")  # seconds

    def add(self, text: str, times: list[float]) -> None:
        """Add characters at the end; forget the first ones when there are too many."""
        self.characters += len(text)
        self._text.extend(text)
        self._times.extend(times)
        if len(self._text) > self._max_characters * 9 // 8:
            self._trim()

    def _trim(self) -> None:
        del self._text[: -self._max_characters]
        del self._times[: -self._max_characters]

    def final(self, duration: float) -> Final:
        """Return the message that ends a stream of that many seconds."""
        self._trim()
        return Final(
            text="".join(self._text),
            times=self._times.tolist(),
            duration=duration,
            omitted=self.characters - len(self._text),
        )
