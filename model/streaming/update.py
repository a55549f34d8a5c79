"""What a stream has to say after one of its steps."""

from typing import NamedTuple

from cortado.model.streaming.snapshot import Snapshot
from cortado.model.streaming.stream import Character
from cortado.model.streaming.utterances import Endpoint


class Update(NamedTuple):
    """What steps gave one stream: characters, the end of an utterance, or its own."""

    characters: list[Character]
    position: float  # seconds of audio that the characters so far rest on
    finished: bool  # nothing follows
    failed: bool = False
    endpoint: Endpoint | None = None  # after the characters
    snapshot: Snapshot | None = None  # of the stream, which was suspended: nothing follows


FAILED = Update([], 0.0, True, failed=True)
