"""The hypotheses of a system on sets of utterances, and their scores."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.audio.error import AudioError
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.progress import Progress
from cortado.model.vocabulary import Vocabulary
from cortado.training.data.evaluation_sets import NamedSet
from cortado.training.data.manifest import Utterance, phonetic
from cortado.training.data.phones import fold
from cortado.training.data.recordings import samples_of
from cortado.training.scoring.delay import (
    Delay,
    character_ends,
    ctc_log_probs,
    delays,
    emission_offset,
    summary,
)
from cortado.training.scoring.edits import Edit, Errors, Unit, count, edits
from cortado.training.scoring.error_rates import Score, score
from cortado.training.scoring.normalise import Normaliser, normaliser
from cortado.training.scoring.phrase_score import PhraseScore, phrase_score
from cortado.training.scoring.systems import Recordings, System

if TYPE_CHECKING:
    from cortado.model.features.speaker import Statistics
    from cortado.model.recognizer import Recognizer
    from cortado.training.scoring.spoken_ends import SpokenEnds

HOUR = 3600  # seconds
ALIGNED_AT_ONCE = 8  # recordings whose CTC alignment is made in one batch


@dataclass(frozen=True)
class Rules:
    """How hypotheses are compared with references."""

    unit: Unit
    normaliser: Normaliser
    phrases: tuple[str, ...] = ()  # that are scored apart, normalised

    @classmethod
    def named(
        cls, unit: Unit = "word", normalisation: str = "none", phrases: Sequence[str] = ()
    ) -> "Rules":
        """Return the rules of a unit, a normalisation by its name, and phrases."""
        chosen = normaliser(normalisation)
        return cls(unit, chosen, tuple(chosen.apply(phrase) for phrase in phrases))

    @property
    def normalisation(self) -> str:
        """What is done to both texts, in words."""
        if self.unit != "phone":
            return self.normaliser.description
        if self.normaliser.name == "corpus":
            return "corpus: TIMIT's 61 phones folded to 39, the glottal stop left out"
        return "none: phones as they are"

    def reference(self, utterance: Utterance) -> str:
        """Return the reference, as it is compared.

        Raises: ValueError where phones are wanted and the utterance has none.
        """
        if self.unit != "phone":
            return self.normaliser.apply(utterance.text)
        return self._phones(phonetic(utterance))

    def hypothesis(self, characters: Sequence[Character]) -> str:
        """Return the hypothesis, as it is compared; phones are separated by spaces."""
        text = "".join(one.text for one in characters)
        return self._phones(text) if self.unit == "phone" else self.normaliser.apply(text)

    def _phones(self, text: str) -> str:
        phones = text.split()
        return " ".join(fold(phones) if self.normaliser.name == "corpus" else phones)


@dataclass(frozen=True)
class Result:
    """The hypothesis of an utterance, as it is compared with its reference."""

    utterance: Utterance
    characters: tuple[Character, ...]
    reference: str
    hypothesis: str
    unit: Unit = "word"
    delays: tuple[float, ...] = ()  # seconds, of the correct characters

    @cached_property
    def edits(self) -> list[Edit]:
        """The edits between both, in the unit."""
        return edits(self.reference, self.hypothesis, self.unit)

    @cached_property
    def errors(self) -> Errors:
        """Their number."""
        return count(self.edits)


@dataclass(frozen=True)
class SetScore:
    """The score of a system on a set."""

    name: str
    system: str
    mode: str
    rules: Rules
    hours: float  # of audio that could be read
    rtf: float  # seconds of features, encoder and decoder per second of audio; not of file formats
    score: Score | None  # None where no audio could be read
    delay: Delay | None  # of streams whose recogniser is here; None if no character is correct
    results: tuple[Result, ...]  # in the set's order
    failures: tuple[AudioError, ...]  # what is wrong with the audio that could not be read
    backend: str = "reference"  # that gave the words, or "server"
    # By id: the speakers' statistics, where features need them.
    speaker_statistics: "Mapping[str, Statistics] | None" = None

    @cached_property
    def phrases(self) -> PhraseScore | None:
        """How often the rules' phrases were recognised; None where there are none."""
        texts = ((one.reference, one.hypothesis) for one in self.results)
        return phrase_score(texts, self.rules.phrases) if self.rules.phrases else None


def evaluate(
    system: System,
    sets: Sequence[NamedSet],
    rules: Rules,
    progress: Progress,
    ends: "SpokenEnds | None" = None,
) -> list[SetScore]:
    """Return the score of a system on each set, in order.

    Audio that cannot be read is listed in the set's failures, and is no part of its score.

    Args:
        system: to score.
        sets: of utterances.
        rules: how texts are compared.
        progress: called with a set's name, its seconds done and its seconds.
        ends: when characters end, for their delays; by the recogniser's CTC head if None.

    Raises: ValueError where an utterance cannot be compared by the rules, before any audio is read.
    """
    references = [{one.id: rules.reference(one) for one in each.utterances} for each in sets]
    return [
        _evaluate_set(system, each, of_set, rules, progress, ends)
        for each, of_set in zip(sets, references, strict=True)
    ]


def _evaluate_set(
    system: System,
    each: NamedSet,
    references: dict[str, str],
    rules: Rules,
    progress: Progress,
    ends: "SpokenEnds | None",
) -> SetScore:
    total = round(sum(utterance.duration for utterance in each.utterances))
    recordings = Recordings(each.utterances)
    hypotheses: dict[str, tuple[Character, ...]] = {}
    done = 0.0
    progress(each.name, 0, total)
    began = time.perf_counter()
    for utterance, characters in system.hear(recordings):
        hypotheses[utterance.id] = tuple(characters)
        done += utterance.duration
        progress(each.name, min(round(done), total), total)
    processing = time.perf_counter() - began - recordings.decoding_seconds
    progress(each.name, total, total)
    read = {one.id: one for one in recordings.read}
    results = [
        Result(read[one.id], found, references[one.id], rules.hypothesis(found), rules.unit)
        for one in each.utterances
        if one.id in read
        for found in [hypotheses[one.id]]
    ]
    delay = None
    live = system.mode == "online" and recordings.speaker_statistics is None
    if system.recognizer is not None and live:
        apply = rules.normaliser.apply
        results = _with_delays(system.recognizer, ends, results, apply, each.name, progress)
        seconds = (delay for one in results for delay in one.delays)
        delay = summary(seconds, emission_offset(system.recognizer))
    pairs = [(one.reference, one.hypothesis) for one in results]
    speakers = [one.utterance.speaker for one in results]
    return SetScore(
        name=each.name,
        system=system.name,
        mode=system.mode,
        rules=rules,
        hours=recordings.audio_seconds / HOUR,
        rtf=processing / max(recordings.audio_seconds, 1 / SAMPLE_RATE),
        score=score(pairs, speakers, unit=rules.unit) if results else None,
        delay=delay,
        results=tuple(results),
        failures=tuple(recordings.failures),
        backend=system.backend,
        speaker_statistics=recordings.speaker_statistics,
    )


def _with_delays(
    recognizer: "Recognizer",
    aligner: "SpokenEnds | None",
    results: Sequence[Result],
    normalise: Callable[[str], str],
    name: str,
    progress: Progress,
) -> list[Result]:
    """Return the results with the delays of their characters; the audio is decoded once more."""
    vocabulary = recognizer.config.vocabulary
    texts = [_reference_symbols(vocabulary, one.utterance, normalise) for one in results]
    offset = emission_offset(recognizer)
    in_order = sorted(range(len(results)), key=lambda k: _place(results[k].utterance))
    measured = list(results)
    total = round(sum(one.utterance.duration for one in results))
    done = 0.0
    for start in range(0, len(in_order), ALIGNED_AT_ONCE):
        chosen = in_order[start : start + ALIGNED_AT_ONCE]
        recordings = [samples_of(results[k].utterance) for k in chosen]
        every = _ends(recognizer, aligner, recordings, [texts[k] for k in chosen])
        for k, ends in zip(chosen, every, strict=True):
            heard = results[k].characters
            found = delays(texts[k], ends, heard, offset, bool(vocabulary.phones))
            measured[k] = replace(results[k], delays=tuple(found))
            done += results[k].utterance.duration
        progress(f"{name}: delays", round(done), total)
    return measured


def _place(utterance: Utterance) -> tuple[str, float]:
    """Return by what utterances are sorted: like lengths together, and parts of one recording.

    `samples_of` keeps one recording, which it would decode again after a part of another one.
    """
    recording = "" if utterance.start is None else str(utterance.audio)
    return recording, utterance.duration


def _ends(
    recognizer: "Recognizer",
    aligner: "SpokenEnds | None",
    recordings: Sequence[Samples],
    texts: Sequence[str],
) -> Iterator[NDArray[np.float64]]:
    """Yield the ends (U,) of each text's characters in seconds, NaN where unknown."""
    if aligner is not None:
        yield from map(aligner.ends, recordings, texts)
        return
    every = ctc_log_probs(recognizer, recordings)
    for log_probs, text in zip(every, texts, strict=True):
        yield character_ends(recognizer, log_probs, text)


def _reference_symbols(
    vocabulary: Vocabulary, utterance: Utterance, normalise: Callable[[str], str]
) -> str:
    """Return what was said in a vocabulary's symbols; empty where the manifest has no phones.

    A text that the vocabulary cannot spell is normalised, as it is where it is compared.
    """
    if vocabulary.phones:
        return phonetic(utterance) if utterance.phones else ""
    return utterance.text if vocabulary.spells(utterance.text) else normalise(utterance.text)
