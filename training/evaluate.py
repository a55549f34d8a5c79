"""Scores of a checkpoint on manifests, by the streaming code that serves."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from model.audio import AudioError, Samples
from model.checkpoint import load
from model.features import SAMPLE_RATE
from model.online import Character, OnlineRecognizer, transcribe_many
from model.recognizer import Recognizer
from training.delay import (
    Delay,
    character_ends,
    ctc_log_probs,
    delays,
    emission_offset,
    summary,
)
from training.manifest import Utterance, read
from training.recordings import samples_of
from training.scoring import Score, character_errors, score, word_errors

HOUR = 3600  # seconds
ALIGNED_AT_ONCE = 8  # recordings whose CTC alignment is made in one batch
Progress = Callable[[str, int, int], None]  # a set's name, its seconds done, its seconds


@dataclass(frozen=True)
class Result:
    """What was heard in an utterance."""

    utterance: Utterance
    characters: tuple[Character, ...]
    delays: tuple[float, ...] = ()  # seconds, of the characters heard right

    @property
    def hypothesis(self) -> str:
        """The text that was heard."""
        return "".join(one.text for one in self.characters)


@dataclass(frozen=True)
class SetScore:
    """What a checkpoint is worth on a manifest."""

    name: str
    hours: float  # of audio that could be read
    rtf: float  # seconds of features, encoder and decoder per second of audio; not of file formats
    score: Score | None  # None where no audio could be read
    delay: Delay | None  # None where nothing was heard right
    results: tuple[Result, ...]  # in the manifest's order
    failures: tuple[AudioError, ...]  # what is wrong with the audio that could not be read


class Recordings:
    """The audio of utterances, decoded one by one as it is asked for; bad files are listed."""

    def __init__(self, utterances: Sequence[Utterance]) -> None:
        self._utterances = utterances
        self.read: list[Utterance] = []
        self.failures: list[AudioError] = []
        self.audio_seconds = 0.0
        self.decoding_seconds = 0.0

    def __iter__(self) -> Iterator[Samples]:
        for utterance in self._utterances:
            began = time.perf_counter()
            try:
                samples = samples_of(utterance)
            except AudioError as error:
                self.failures.append(error)
                continue
            finally:
                self.decoding_seconds += time.perf_counter() - began
            self.read.append(utterance)
            self.audio_seconds += len(samples) / SAMPLE_RATE
            yield samples


def evaluate(checkpoint: Path, manifests: Sequence[Path], progress: Progress) -> list[SetScore]:
    """Return the score of a checkpoint on each manifest, in order.

    All manifests are read before any audio, so that a bad one costs no time. Audio that cannot be
    read is listed in the set's failures, and is no part of its score.

    Raises:
        ValueError: the checkpoint or a manifest is not what it should be.
        OSError: a manifest cannot be read.
    """
    sets = [(set_name(path), read(path)) for path in manifests]
    online = OnlineRecognizer(load(checkpoint))
    return [_evaluate_set(online, name, utterances, progress) for name, utterances in sets]


def set_name(manifest: Path) -> str:
    """Return the name of a manifest's set: its folder and its file, `librispeech-mini/dev`."""
    path = manifest.absolute()
    return f"{path.parent.name}/{path.stem}"


def _evaluate_set(
    online: OnlineRecognizer, name: str, utterances: Sequence[Utterance], progress: Progress
) -> SetScore:
    total = round(sum(utterance.duration for utterance in utterances))
    recordings = Recordings(utterances)
    heard: dict[str, tuple[Character, ...]] = {}
    done = 0.0
    progress(name, 0, total)
    began = time.perf_counter()
    for index, characters in transcribe_many(online, recordings):
        utterance = recordings.read[index]
        heard[utterance.id] = tuple(characters)
        done += utterance.duration
        progress(name, round(done), total)
    processing = time.perf_counter() - began - recordings.decoding_seconds
    progress(name, total, total)
    results = [Result(one, heard[one.id]) for one in recordings.read]
    results = _with_delays(online.recognizer, results, name, progress)
    offset = emission_offset(online.recognizer)
    return SetScore(
        name=name,
        hours=recordings.audio_seconds / HOUR,
        rtf=processing / max(recordings.audio_seconds, 1 / SAMPLE_RATE),
        score=_score(results) if results else None,
        delay=summary((delay for one in results for delay in one.delays), offset),
        results=tuple(results),
        failures=tuple(recordings.failures),
    )


def _with_delays(
    recognizer: Recognizer, results: Sequence[Result], name: str, progress: Progress
) -> list[Result]:
    """Return the results with the delays of their characters; the audio is decoded once more."""
    offset = emission_offset(recognizer)
    by_length = sorted(range(len(results)), key=lambda k: results[k].utterance.duration)
    measured = list(results)
    total = round(sum(one.utterance.duration for one in results))
    done = 0.0
    for start in range(0, len(by_length), ALIGNED_AT_ONCE):
        chosen = by_length[start : start + ALIGNED_AT_ONCE]
        recordings = [samples_of(results[k].utterance) for k in chosen]
        for k, log_probs in zip(chosen, ctc_log_probs(recognizer, recordings), strict=True):
            result, text = results[k], results[k].utterance.text
            ends = character_ends(recognizer, log_probs, text)
            found = delays(text, ends, result.characters, offset)
            measured[k] = replace(result, delays=tuple(found))
            done += result.utterance.duration
        progress(f"{name}: delays", round(done), total)
    return measured


def _score(results: Sequence[Result]) -> Score:
    pairs = [(one.utterance.text, one.hypothesis) for one in results]
    return score(pairs, [one.utterance.speaker for one in results])


def check_place(path: Path) -> None:
    """Look, before hours of work, whether a file can be written at `path`.

    Raises: ValueError where it cannot.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"expected a file in a folder that exists, got {path}")


def write_json(sets: Sequence[SetScore], path: Path) -> None:
    """Write sets as JSON: rates are fractions, counts are words, null where nothing was read."""
    content = {"sets": [_set_as_json(one) for one in sets]}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _set_as_json(one: SetScore) -> dict[str, Any]:
    rates = asdict(one.score) if one.score else {}
    names = ("wer", "cer", "wer_ci95", "cer_ci95", "substitutions", "deletions", "insertions")
    return {
        "name": one.name,
        "utterances": len(one.results),
        "hours": one.hours,
        **{name: rates.get(name) for name in (*names, "loops")},
        "rtf": one.rtf,
        "delay": asdict(one.delay) if one.delay else None,
        "unreadable": len(one.failures),
    }


def write_hypotheses(sets: Sequence[SetScore], path: Path) -> None:
    """Write a JSON line per utterance: what was said, what was heard, and the edits between."""
    with path.open("w", encoding="utf-8") as file:
        for one in sets:
            for result in one.results:
                row = {"set": one.name, **_result_as_json(result)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _result_as_json(result: Result) -> dict[str, Any]:
    reference, hypothesis = result.utterance.text, result.hypothesis
    words, characters = (count(reference, hypothesis) for count in (word_errors, character_errors))
    return {
        "id": result.utterance.id,
        "speaker": result.utterance.speaker,
        "reference": reference,
        "hypothesis": hypothesis,
        "words": words.length,
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "characters": characters.length,
        "character_errors": characters.total,
    }
