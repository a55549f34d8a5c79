"""Statistics of each speaker, to normalise features in training and in scoring.

A speaker is a name within a manifest. An utterance of an unknown speaker is its own speaker.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cortado.model.adaptation import adapted
from cortado.model.arrays import Samples
from cortado.model.features.speaker import Statistics, Sums, statistics_of
from cortado.model.recognizer import Recognizer
from cortado.training.data.log_mel_cache import CachedCorpus
from cortado.training.data.voices import HasSpeaker, by_speaker_indices

Frames = NDArray[np.float32]  # (T, F) log-mel
Text = TypeVar("Text")


def speaker_statistics(corpus: CachedCorpus) -> list[Statistics]:
    """Return, for each utterance, the statistics of its speaker over the whole corpus."""
    found: dict[int, Statistics] = {}
    for group in by_speaker_indices(corpus.utterances):
        sums = Sums(corpus.bands)
        for k in group:
            sums.add(corpus.logmel(k))
        found |= dict.fromkeys(group, sums.statistics())
    return [found[k] for k in range(len(corpus))]


def augmented_statistics(statistics: Statistics, before: Frames, after: Frames) -> Statistics:
    """Return a speaker's statistics as if all of the speech had been augmented like one utterance.

    The mean moves as far as the utterance's own. The deviation stays: masked bands have none.

    Args:
        statistics: of the speaker's recordings.
        before: the utterance.
        after: the utterance as it was augmented.
    """
    return statistics._replace(mean=statistics.mean + after.mean(0) - before.mean(0))


def utterance_statistics(logmel: Frames) -> Statistics:
    """Return the statistics of the (T, F) frames of one utterance."""
    sums = Sums(logmel.shape[1])
    sums.add(logmel)
    return sums.statistics()


def transcribed(
    recognizer: Recognizer,
    recordings: Sequence[Samples],
    utterances: Sequence[HasSpeaker],
    transcribe: Callable[[Recognizer, Sequence[Samples]], Iterable[Text]],
) -> list[Text]:
    """Return the texts of recordings, with the recogniser adapted to each speaker if need be.

    Args:
        recognizer: one that normalises by speaker takes the statistics from these recordings.
        recordings: (N,) samples each.
        utterances: the speaker of each recording.
        transcribe: gives the texts of recordings of one speaker.
    """
    if not recognizer.config.features.by_speaker:
        return list(transcribe(recognizer, recordings))
    found: dict[int, Text] = {}
    for group in by_speaker_indices(utterances):
        part = [recordings[k] for k in group]
        statistics = statistics_of(recognizer.features, [[samples] for samples in part])
        found |= zip(group, transcribe(adapted(recognizer, statistics), part), strict=True)
    return [found[k] for k in range(len(recordings))]
