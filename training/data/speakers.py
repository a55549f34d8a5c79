"""Statistics of each speaker, to normalise features in training and in scoring.

A speaker is known by the name in the manifest, within it; an utterance whose speaker is not known
stands for itself.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cortado.model.adaptation import adapted
from cortado.model.audio.decode import Samples
from cortado.model.features.speaker import Statistics, Sums, by_speaker, statistics_of
from cortado.model.recognizer import Recognizer
from cortado.training.data.corpora.folder import UNKNOWN_SPEAKER
from cortado.training.data.log_mel_cache import Corpus

Frames = NDArray[np.float32]  # (T, F) log-mel
Text = TypeVar("Text")


class Spoken(Protocol):
    """Anything that somebody said."""

    @property
    def id(self) -> str:
        """Its own name."""
        ...

    @property
    def speaker(self) -> str:
        """Who said it."""
        ...


def grouped(spoken: Sequence[Spoken]) -> list[list[int]]:
    """Return the indices of each speaker's utterances; speakers as they come first."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for k, one in enumerate(spoken):
        known = one.speaker not in ("", UNKNOWN_SPEAKER)
        groups.setdefault((one.speaker,) if known else ("", one.id), []).append(k)
    return list(groups.values())


def voices(corpus: Corpus) -> list[Statistics]:
    """Return the statistics of each utterance's speaker, over all of his in the corpus."""
    found: dict[int, Statistics] = {}
    for group in grouped(corpus.utterances):
        sums = Sums(corpus.bands)
        for k in group:
            sums.add(corpus.logmel(k))
        found |= dict.fromkeys(group, sums.statistics())
    return [found[k] for k in range(len(corpus))]


def changed(statistics: Statistics, before: Frames, after: Frames) -> Statistics:
    """Return a speaker's statistics, had all that he says been augmented as one utterance was.

    The mean moves as far as the utterance's own; the deviation stays, since bands that are blanked
    have none.

    Args:
        statistics: of the speaker as he was recorded.
        before: the utterance.
        after: the utterance as it was augmented.
    """
    return statistics._replace(mean=statistics.mean + after.mean(0) - before.mean(0))


def alone(logmel: Frames) -> Statistics:
    """Return the statistics of (T, F) frames by themselves."""
    sums = Sums(logmel.shape[1])
    sums.add(logmel)
    return sums.statistics()


def transcribed(
    recognizer: Recognizer,
    recordings: Sequence[Samples],
    said: Sequence[Spoken],
    transcribe: Callable[[Recognizer, Sequence[Samples]], Iterable[Text]],
) -> list[Text]:
    """Return the texts of recordings in their order, by a recogniser adapted where it must be.

    Args:
        recognizer: any; one of speakers' statistics takes them from these recordings.
        recordings: (N,) samples each.
        said: who speaks in each.
        transcribe: gives the texts of recordings of one speaker.
    """
    if not by_speaker(recognizer.config):
        return list(transcribe(recognizer, recordings))
    found: dict[int, Text] = {}
    for group in grouped(said):
        part = [recordings[k] for k in group]
        statistics = statistics_of(recognizer.features, [[samples] for samples in part])
        found |= zip(group, transcribe(adapted(recognizer, statistics), part), strict=True)
    return [found[k] for k in range(len(recordings))]
