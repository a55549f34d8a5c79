"""What a stream asks for, beside its sound."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_PHRASES, MAX_PHRASE = 100, 100  # that a stream may expect; characters of each
MAX_ALTERNATIVES = 10  # of a word


@dataclass(frozen=True)
class StreamOptions:
    """What a new stream asks for. A resumed one has what it asked for when it was new.

    Raises: ValueError if the phrases are no list of texts, or they or the alternatives too many.
    """

    phrases: Sequence[str] = ()  # that are likely to be said, such as names
    alternatives: int = 0  # of each word, at most
    endpoints: bool = True  # whether utterances end before the stream does
    silence: float | None = None  # seconds that end an utterance; None for the pool's own rules

    def __post_init__(self) -> None:
        """Check what callers in Python give; the protocol checks its own messages."""
        if isinstance(self.phrases, str):
            raise ValueError(f"expected phrases as a list of texts, got the text {self.phrases!r}")
        if not isinstance(self.phrases, Sequence):
            raise ValueError(f"expected phrases as a list of texts, got {self.phrases!r:.60}")
        if len(self.phrases) > MAX_PHRASES:
            raise ValueError(f"expected at most {MAX_PHRASES} phrases, got {len(self.phrases)}")
        for one in self.phrases:
            if not isinstance(one, str) or len(one) > MAX_PHRASE:
                expected = f"phrases as texts of at most {MAX_PHRASE} characters"
                raise ValueError(f"expected {expected}, got {one!r:.60}")
        if self.alternatives not in range(MAX_ALTERNATIVES + 1):
            expected = f"a whole number of alternatives from 0 to {MAX_ALTERNATIVES}"
            raise ValueError(f"expected {expected}, got {self.alternatives!r}")


DEFAULT_OPTIONS = StreamOptions()
