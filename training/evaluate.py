"""Scores of a checkpoint on manifests, by the streaming code that serves."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model.audio import AudioError, Samples, decode
from model.checkpoint import load
from model.features import SAMPLE_RATE
from model.online import OnlineRecognizer, transcribe_many
from training.manifest import Utterance, read
from training.scoring import Score, character_errors, score, word_errors

HOUR = 3600  # seconds
Progress = Callable[[str, int, int], None]  # a set's name, its seconds done, its seconds


@dataclass(frozen=True)
class Result:
    """What was heard in an utterance."""

    utterance: Utterance
    hypothesis: str


@dataclass(frozen=True)
class SetScore:
    """What a checkpoint is worth on a manifest."""

    name: str
    hours: float  # of audio that could be read
    rtf: float  # seconds of features, encoder and decoder per second of audio; not of file formats
    score: Score | None  # None where no audio could be read
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
                samples = decode(utterance.audio)
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
    hypotheses: dict[str, str] = {}
    done = 0.0
    progress(name, 0, total)
    began = time.perf_counter()
    for index, characters in transcribe_many(online, recordings):
        utterance = recordings.read[index]
        hypotheses[utterance.id] = "".join(one.text for one in characters)
        done += utterance.duration
        progress(name, round(done), total)
    processing = time.perf_counter() - began - recordings.decoding_seconds
    progress(name, total, total)
    results = tuple(Result(one, hypotheses[one.id]) for one in recordings.read)
    return SetScore(
        name=name,
        hours=recordings.audio_seconds / HOUR,
        rtf=processing / max(recordings.audio_seconds, 1 / SAMPLE_RATE),
        score=_score(results) if results else None,
        results=results,
        failures=tuple(recordings.failures),
    )


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
