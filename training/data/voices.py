"""Which utterances are one speaker's. An utterance of an unknown speaker is its own speaker."""

from collections.abc import Sequence
from typing import Protocol

from cortado.training.data.corpora.folder import NOBODY

Who = tuple[str, ...]  # a speaker's name, or "" and the utterance of one who is not known


class HasSpeaker(Protocol):
    """An utterance in any form."""

    @property
    def id(self) -> str:
        """Its own name."""
        ...

    @property
    def speaker(self) -> str:
        """Who said it."""
        ...


def by_speaker_indices(utterances: Sequence[HasSpeaker]) -> list[list[int]]:
    """Return the indices of each speaker's utterances, speakers in the order they appear in."""
    groups: dict[Who, list[int]] = {}
    for k, one in enumerate(utterances):
        groups.setdefault(who(one), []).append(k)
    return list(groups.values())


def who(utterance: HasSpeaker) -> Who:
    """Return what tells an utterance's speaker from all others."""
    return ("", utterance.id) if utterance.speaker in NOBODY else (utterance.speaker,)
