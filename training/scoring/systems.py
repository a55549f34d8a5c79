"""Systems that can be evaluated: a checkpoint with one of its searches, or a server."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cortado.model.arrays import Samples
from cortado.model.audio.error import AudioError
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.streaming.recordings import transcribe_many
from cortado.training.data.manifest import Utterance
from cortado.training.data.recordings import samples_of

if TYPE_CHECKING:  # they bring torch, without which the fast backend is evaluated too
    from cortado.model.features.speaker import Statistics
    from cortado.model.recognizer import Recognizer

Hypotheses = Iterator[tuple[int, Sequence[Character]]]  # the index of a recording, its characters
Transcribe = Callable[[Iterable[Samples]], Hypotheses]
Search = Callable[["Recognizer"], Transcribe]


class Recordings:
    """The audio of utterances, decoded one by one as it is asked for; bad files are listed."""

    def __init__(self, utterances: Sequence[Utterance]) -> None:
        self.utterances = utterances
        self.read: list[Utterance] = []
        self.failures: list[AudioError] = []
        self.speaker_statistics: dict[str, Statistics] | None = None  # by id
        self.audio_seconds = 0.0
        self.decoding_seconds = 0.0

    def of(self, utterances: Iterable[Utterance]) -> Iterator[Samples]:
        """Yield the samples of some utterances, which come to `read` or to `failures`."""
        for utterance in utterances:
            try:
                samples = self._decoded(utterance)
            except AudioError as error:
                self.failures.append(error)
                continue
            seconds = len(samples) / SAMPLE_RATE
            self.read.append(replace(utterance, duration=utterance.duration or seconds))
            self.audio_seconds += seconds
            yield samples

    def readable(self, utterances: Iterable[Utterance]) -> Iterator[Samples]:
        """Yield the samples of those of some utterances that can be read; `of` is yet to come."""
        for utterance in utterances:
            with suppress(AudioError):
                yield self._decoded(utterance)

    def _decoded(self, utterance: Utterance) -> Samples:
        began = time.perf_counter()
        try:
            return samples_of(utterance)
        finally:
            self.decoding_seconds += time.perf_counter() - began


Hear = Callable[[Recordings], Iterator[tuple[Utterance, Sequence[Character]]]]


@dataclass(frozen=True)
class System:
    """What is evaluated."""

    name: str  # of a checkpoint or a server
    mode: str  # how it searches, as `cortado evaluate --mode` names it
    hear: Hear  # yields hypotheses as utterances finish
    # Its own, for emission delays and pictures; None where it is unknown or torch is absent.
    recognizer: "Recognizer | None" = None
    backend: str = "reference"  # that gives the words, or "server"


def served(
    chosen: StreamingRecognizer,
    name: str,
    recognizer: "Recognizer | None" = None,
    options: StreamOptions = DEFAULT_OPTIONS,
) -> System:
    """Return a recogniser as it serves, in the backend that it is in."""
    hear = in_order(lambda audio: transcribe_many(chosen, audio, options=options))
    return System(name, "online", hear, recognizer, chosen.name)


def served_by_speaker(
    recognizer: "Recognizer",
    name: str,
    serve: Callable[["Recognizer"], StreamingRecognizer],
    options: StreamOptions = DEFAULT_OPTIONS,
) -> System:
    """Return a recogniser as it serves, adapted to one speaker after another.

    Args:
        recognizer: whose features need statistics of speakers.
        name: of its checkpoint.
        serve: returns an adapted recogniser in its backend; what it raises comes before the work.
        options: of each stream.
    """
    from cortado.model.adaptation import adapted
    from cortado.model.features.speaker import statistics_of

    def search(one: "Recognizer") -> Transcribe:
        chosen = serve(one)
        return lambda audio: transcribe_many(chosen, audio, options=options)

    trial = serve(adapted(recognizer, statistics_of(recognizer.features, [])))
    return System(name, "online", by_speaker_in_turn(recognizer, search), recognizer, trial.name)


def offline(recognizer: "Recognizer", name: str, mode: str, search: Search) -> System:
    """Return a recogniser in a search of whole utterances."""
    needs_speaker = recognizer.config.features.by_speaker
    hear = by_speaker_in_turn(recognizer, search) if needs_speaker else in_order(search(recognizer))
    return System(name, mode, hear, recognizer)


def in_order(transcribe: Transcribe) -> Hear:
    """Return a function that recognises recordings in order, without their speakers."""

    def hear(recordings: Recordings) -> Iterator[tuple[Utterance, Sequence[Character]]]:
        for index, characters in transcribe(recordings.of(recordings.utterances)):
            yield recordings.read[index], characters

    return hear


def by_speaker_in_turn(recognizer: "Recognizer", search: Search) -> Hear:
    """Return a function that recognises speaker by speaker, with each one's statistics."""
    from cortado.model.adaptation import adapted
    from cortado.model.features.speaker import statistics_of
    from cortado.training.data.voices import by_speaker_indices

    def hear(recordings: Recordings) -> Iterator[tuple[Utterance, Sequence[Character]]]:
        recordings.speaker_statistics = {}
        for group in by_speaker_indices(recordings.utterances):
            spoken = [recordings.utterances[k] for k in group]
            first = ([samples] for samples in recordings.readable(spoken))
            statistics = statistics_of(recognizer.features, first)
            before = len(recordings.read)
            transcribe = search(adapted(recognizer, statistics))
            for index, characters in transcribe(recordings.of(spoken)):
                utterance = recordings.read[before + index]
                recordings.speaker_statistics[utterance.id] = statistics
                yield utterance, characters

    return hear
