"""What a stream asks for, beside its sound."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StreamOptions:
    """What a new stream asks for. A resumed one has what it asked for when it was new."""

    phrases: Sequence[str] = ()  # that are likely to be said, such as names
    alternatives: int = 0  # of each word, at most
    endpoints: bool = True  # whether utterances end before the stream does
    silence: float | None = None  # seconds that end an utterance; None for the pool's own rules


DEFAULT_OPTIONS = StreamOptions()
