"""A day of sound through one stream: does anything grow, drift or get stuck?

Blocks of speech alternate with stretches in which nobody speaks (sounds.py). A round is all
recordings, each once, so the word errors of the first and the last rounds can be compared.
"""

import resource
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from cortado.clients.bench.endless.sounds import BLOCK, STRETCH, STRETCHES, Sound, Spoken, day
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.progress import Progress
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.live import LiveStream
from cortado.training.scoring.edits import errors

GRACE = 1.0  # seconds after a recording in which its last characters may still come
STEP_MS = SAMPLES_PER_STEP * 1000 // SAMPLE_RATE
COMPARED_STEPS = 5_000  # after the day, in turn with a new stream
WARM_UP = 2_000  # steps until memory is compared


class Scored(NamedTuple):
    """The errors in one playback of a recording."""

    recording: int
    errors: int  # in words
    words: int


@dataclass
class Findings:
    """The results of a day of sound."""

    hours: float = 0.0
    rounds: int = 0  # times that all recordings were heard
    wer: tuple[float, float] = (0.0, 0.0)  # in the first and the last tenth of the rounds
    scores: list[Scored] = field(default_factory=list)  # of each playback, in order
    false_characters: dict[str, int] = field(default_factory=dict)  # without speech, by kind
    per_minute: dict[str, float] = field(default_factory=dict)  # false characters, by kind
    seconds: dict[str, float] = field(default_factory=dict)  # of sound, by kind
    utterances: int = 0
    longest: float = 0.0  # seconds of an utterance
    drift_ms: float = 0.0  # largest, of a character's time against its step counted in integers
    state_bytes: tuple[int, int] = (0, 0)  # of the suspended stream, at the beginning and the end
    memory_mib: tuple[float, float] = (0.0, 0.0)  # peak of the process, at both
    step_ms: tuple[float, float] = (0.0, 0.0)  # median cost of a step, of a new stream and of this
    worst_ms: tuple[float, float] = (0.0, 0.0)  # 99th percentile


def run_day(
    recognizer: StreamingRecognizer,
    speech: Sequence[Spoken],
    hours: float,
    report: Progress,
    seed: int = 0,
    stretch: tuple[float, float] = STRETCH,
) -> Findings:
    """Push `hours` of sound through one stream as fast as it goes.

    Args:
        recognizer: streaming recogniser.
        speech: recordings with their texts.
        hours: of sound; at least two rounds of all recordings.
        report: called with a label, the seconds of sound so far and in total.
        seed: of all that is not speech, and of the order of the recordings.
        stretch: shortest and longest stretch without speech, in seconds.

    Raises: ValueError if there is no speech.
    """
    if not speech:
        raise ValueError("expected at least one recording, got none")
    return _Day(recognizer, speech, day(speech, seed, stretch)).run(
        round(hours * 3600 * SAMPLE_RATE), report
    )


@dataclass
class _Open:
    """A recording whose last characters may still come."""

    recording: int
    start: float  # seconds of the day
    end: float
    text: list[str] = field(default_factory=list)


class _Stretch(NamedTuple):
    """A time without speech, in which every character is an error."""

    kind: str
    start: float  # seconds of the day
    end: float


class _Day:
    """One stream and the figures gathered while it hears a day of sound."""

    def __init__(
        self, recognizer: StreamingRecognizer, speech: Sequence[Spoken], sounds: Iterator[Sound]
    ) -> None:
        self._recognizer, self._speech, self._sounds = recognizer, speech, sounds
        self._stream = LiveStream(recognizer)
        self._delay = recognizer.delay_steps
        self._pushed = self._steps = 0  # samples, steps
        self._open: deque[_Open] = deque()
        self._stretches: deque[_Stretch] = deque(maxlen=2 * BLOCK)
        self._quiet = dict.fromkeys(STRETCHES, 0.0)  # seconds in which characters are counted
        self.found = Findings(false_characters=dict.fromkeys(STRETCHES, 0))

    def run(self, total: int, report: Progress) -> Findings:
        found = self.found
        while self._pushed < total:
            self._push(next(self._sounds))
            report("played", self._pushed // SAMPLE_RATE, total // SAMPLE_RATE)
        self._score(float("inf"))
        found.hours = self._pushed / SAMPLE_RATE / 3600
        found.rounds = len(found.scores) // len(self._speech)
        tenth = max(1, found.rounds // 10) * len(self._speech)
        whole = found.scores[: found.rounds * len(self._speech)] or found.scores
        found.wer = _rate(whole[:tenth]), _rate(whole[-tenth:])
        found.per_minute = {
            kind: found.false_characters[kind] * 60 / seconds
            for kind, seconds in self._quiet.items()
            if seconds
        }
        found.state_bytes = (found.state_bytes[0], self._size())
        found.memory_mib = (found.memory_mib[0], _memory())
        new, old = self._compare()
        found.step_ms = (float(np.median(new)), float(np.median(old)))
        found.worst_ms = (float(np.quantile(new, 0.99)), float(np.quantile(old, 0.99)))
        return found

    def _compare(self) -> list[list[float]]:
        """Return the milliseconds of steps of a new stream and of the old one.

        Both get the same audio in turn, so that changes in the machine's speed affect both.
        """
        streams, times = (LiveStream(self._recognizer), self._stream), [[], []]  # type: ignore[var-annotated]
        while len(times[0]) < COMPARED_STEPS:
            samples = next(self._sounds).samples
            for start in range(0, len(samples), SAMPLES_PER_STEP):
                first = len(times[0]) % 2
                for k in (first, 1 - first):
                    began = perf_counter()
                    list(streams[k].push(samples[start : start + SAMPLES_PER_STEP]))
                    times[k].append(1000 * (perf_counter() - began))
        return times

    def _push(self, sound: Sound) -> None:
        """Push one sound, a step's worth at a time."""
        start, end = (x / SAMPLE_RATE for x in (self._pushed, self._pushed + len(sound.samples)))
        self._expect(sound, start, end)
        for first in range(0, len(sound.samples), SAMPLES_PER_STEP):
            piece = sound.samples[first : first + SAMPLES_PER_STEP]
            self._pushed += len(piece)
            before, self._steps = self._steps, self._pushed // SAMPLES_PER_STEP
            for update in self._stream.push(piece):
                characters, endpoint = update.characters, update.endpoint
                self._assign(characters)
                if endpoint:
                    self.found.utterances += 1
                    length = endpoint.end - endpoint.start
                    self.found.longest = max(self.found.longest, length)
            if before < WARM_UP <= self._steps:
                self.found.state_bytes = (self._size(), 0)
                self.found.memory_mib = (_memory(), 0.0)
        self._score(end - 2 * GRACE)

    def _expect(self, sound: Sound, start: float, end: float) -> None:
        """Record the source of the characters between two times in seconds."""
        kind = sound.kind
        self.found.seconds[kind] = self.found.seconds.get(kind, 0.0) + end - start
        if kind == "speech":
            if self._open:  # late characters count for the next recording
                self._open[-1].end = min(self._open[-1].end, start)
            self._open.append(_Open(sound.recording, start, end + GRACE))
        elif kind in STRETCHES:
            self._stretches.append(_Stretch(kind, start + GRACE, end))
            self._quiet[kind] += max(0.0, end - start - GRACE)

    def _assign(self, characters: Sequence[Character]) -> None:
        """Assign the characters of a step; compare their times with the count of steps."""
        for one in characters:
            late = round(one.late * 1000 / STEP_MS)
            expected = max(self._steps - late - self._delay, 0) * STEP_MS
            drift = abs(one.time * 1000 - expected)
            self.found.drift_ms = max(self.found.drift_ms, drift)
            for spoken in self._open:
                if spoken.start <= one.time < spoken.end:
                    spoken.text.append(one.text)
                    break
            for kind, start, end in self._stretches:
                if start <= one.time < end:
                    self.found.false_characters[kind] += 1

    def _score(self, before: float) -> None:
        """Count the errors in the recordings that ended before that second."""
        while self._open and self._open[0].end < before:
            one = self._open.popleft()
            hypothesis = " ".join("".join(one.text).split())
            found = errors(self._speech[one.recording].text, hypothesis)
            self.found.scores.append(Scored(one.recording, found.total, found.length))

    def _size(self) -> int:
        """Return the bytes of the suspended stream."""
        return len(self._stream.suspend())


def _rate(scores: Sequence[Scored]) -> float:
    return sum(one.errors for one in scores) / max(sum(one.words for one in scores), 1)


def _memory() -> float:
    """Return the largest memory that the process has had, in MiB."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (1 << 20 if sys.platform == "darwin" else 1 << 10)  # bytes on macOS, else KiB
