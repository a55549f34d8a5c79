"""A day of sound through one stream: does anything grow, drift or get stuck?

Blocks of speech alternate with stretches in which nobody speaks (sounds.py). The word errors of
the first and the last rounds are compared, and those behind each kind of stretch (recovery.py).
"""

import resource
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from cortado.clients.bench.endless.recovery import (
    Heard,
    Recovery,
    Tenth,
    differ,
    recoveries,
    tenths,
)
from cortado.clients.bench.endless.sounds import BLOCK, STRETCH, STRETCHES, Sound, Spoken, day
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.live import LiveStream
from cortado.training.scoring.edits import errors

LATE = 1.0  # seconds after a recording in which its last characters may still be written
STEP_MS = SAMPLES_PER_STEP * 1000 // SAMPLE_RATE
TIMES = 5_000  # steps after the day whose cost is compared with that of a new stream's
WARM = 2_000  # steps until memory is compared


@dataclass
class Findings:
    """What a day of sound showed."""

    hours: float = 0.0
    rounds: int = 0  # times that all recordings were heard
    first: Tenth | None = None  # of the rounds
    last: Tenth | None = None
    differ: bool | None = None  # first and last, by more than chance; None where nobody can say
    recovery: dict[str, Recovery] = field(default_factory=dict)  # behind a stretch, by its kind
    heard: list[Heard] = field(default_factory=list)  # each time of each recording
    written: dict[str, int] = field(default_factory=dict)  # characters where nobody spoke, by kind
    a_minute: dict[str, float] = field(default_factory=dict)  # of them
    seconds: dict[str, float] = field(default_factory=dict)  # of sound, by kind
    utterances: int = 0
    longest: float = 0.0  # seconds of an utterance
    drift_ms: float = 0.0  # largest, of a character's time against its step counted in integers
    state_bytes: tuple[int, int] = (0, 0)  # of the suspended stream, at the beginning and the end
    memory_mib: tuple[float, float] = (0.0, 0.0)  # peak of the process, at both
    step_ms: tuple[float, float] = (0.0, 0.0)  # median cost of a step, of a new stream and of this
    worst_ms: tuple[float, float] = (0.0, 0.0)  # 99th percentile


def endure(
    online: StreamingRecognizer,
    speech: Sequence[Spoken],
    hours: float,
    report: Callable[[str, int, int], None],
    seed: int = 0,
    stretch: tuple[float, float] = STRETCH,
) -> Findings:
    """Push `hours` of sound through one stream as fast as it goes.

    Args:
        online: the recogniser.
        speech: recordings with their texts.
        hours: of sound; whole rounds through the recordings are compared, so more than two.
        report: called with a word, the seconds of sound so far and of all.
        seed: of all that is not speech, and of the order of the recordings.
        stretch: least and most seconds in which nobody speaks.

    Raises:
        ValueError: there is no speech.
    """
    if not speech:
        raise ValueError("expected at least one recording, got none")
    return _Day(online, speech, day(speech, seed, stretch)).run(
        round(hours * 3600 * SAMPLE_RATE), report
    )


@dataclass
class _Open:
    """A recording whose last characters may still come."""

    recording: int
    behind: str  # the kind of the stretch that it follows, empty where it follows none
    start: float  # seconds of the day
    end: float
    text: list[str] = field(default_factory=list)


class _Stretch(NamedTuple):
    """When a character is one that nobody said."""

    kind: str
    start: float  # seconds of the day
    end: float


class _Day:
    """One stream and the figures gathered while it hears a day of sound."""

    def __init__(
        self, online: StreamingRecognizer, speech: Sequence[Spoken], sounds: Iterator[Sound]
    ) -> None:
        self._online, self._speech, self._sounds = online, speech, sounds
        self._stream = LiveStream(online)
        self._delay = online.delay_steps
        self._pushed = self._steps = 0  # samples, steps
        self._open: deque[_Open] = deque()
        self._stretches: deque[_Stretch] = deque(maxlen=2 * BLOCK)
        self._behind = ""  # the kind of the last sound that was no pause
        self._quiet = dict.fromkeys(STRETCHES, 0.0)  # seconds in which characters are counted
        self.found = Findings(written=dict.fromkeys(STRETCHES, 0))

    def run(self, total: int, report: Callable[[str, int, int], None]) -> Findings:
        found = self.found
        while self._pushed < total:
            self._hear(next(self._sounds))
            report("heard", self._pushed // SAMPLE_RATE, total // SAMPLE_RATE)
        self._score(float("inf"))
        found.hours = self._pushed / SAMPLE_RATE / 3600
        found.rounds = len(found.heard) // len(self._speech)
        found.first, found.last = tenths(found.heard, len(self._speech))
        found.differ = differ(found.first, found.last)
        found.recovery = recoveries(found.heard)
        found.a_minute = {
            kind: found.written[kind] * 60 / seconds
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
        """Return what steps cost a new stream and the old one, in milliseconds.

        They hear the same in turn: a day apart, the machine's own speed would be compared.
        """
        streams, times = (LiveStream(self._online), self._stream), [[], []]  # type: ignore[var-annotated]
        while len(times[0]) < TIMES:
            samples = next(self._sounds).samples
            for start in range(0, len(samples), SAMPLES_PER_STEP):
                first = len(times[0]) % 2
                for k in (first, 1 - first):
                    began = perf_counter()
                    list(streams[k].push(samples[start : start + SAMPLES_PER_STEP]))
                    times[k].append(1000 * (perf_counter() - began))
        return times

    def _hear(self, sound: Sound) -> None:
        """Push one sound, a step's worth at a time."""
        start, end = (x / SAMPLE_RATE for x in (self._pushed, self._pushed + len(sound.samples)))
        self._expect(sound, start, end)
        for first in range(0, len(sound.samples), SAMPLES_PER_STEP):
            piece = sound.samples[first : first + SAMPLES_PER_STEP]
            self._pushed += len(piece)
            before, self._steps = self._steps, self._pushed // SAMPLES_PER_STEP
            for update in self._stream.push(piece):
                characters, endpoint = update.characters, update.endpoint
                self._take(characters)
                if endpoint:
                    self.found.utterances += 1
                    length = endpoint.end - endpoint.start
                    self.found.longest = max(self.found.longest, length)
            if before < WARM <= self._steps:
                self.found.state_bytes = (self._size(), 0)
                self.found.memory_mib = (_memory(), 0.0)
        self._score(end - 2 * LATE)

    def _expect(self, sound: Sound, start: float, end: float) -> None:
        """Take note of whose the characters are that come from a second to another."""
        kind = sound.kind
        self.found.seconds[kind] = self.found.seconds.get(kind, 0.0) + end - start
        if kind == "speech":
            if self._open:  # what is late in the recording before is taken for this one's
                self._open[-1].end = min(self._open[-1].end, start)
            self._open.append(_Open(sound.recording, self._behind, start, end + LATE))
            self._behind = ""
        elif kind in STRETCHES:
            self._stretches.append(_Stretch(kind, start + LATE, end))
            self._behind = kind
            self._quiet[kind] += max(0.0, end - start - LATE)

    def _take(self, characters: Sequence[Character]) -> None:
        """Take what one step wrote: its time is that of a step, counted in integers."""
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
                    self.found.written[kind] += 1

    def _score(self, before: float) -> None:
        """Count the errors in the recordings that ended before that second."""
        while self._open and self._open[0].end < before:
            one = self._open.popleft()
            hypothesis = " ".join("".join(one.text).split())
            found = errors(self._speech[one.recording].text, hypothesis)
            self.found.heard.append(Heard(one.recording, one.behind, found.total, found.length))

    def _size(self) -> int:
        """Return the bytes of the suspended stream."""
        return len(self._stream.suspend())


def _memory() -> float:
    """Return the largest memory that the process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
