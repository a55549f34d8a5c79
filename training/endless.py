"""A day of sound through one stream: does anything grow, drift or get stuck?

Blocks of speech take turns with stretches in which nobody speaks: silence, noise, music, clipping,
a direct current, digital zero. Everything is made from one seed, as it is needed.
"""

import resource
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.backend import Online
from model.features import SAMPLE_RATE, SAMPLES_PER_STEP
from model.live import LiveStream
from model.online import Character
from training.manifest import read
from training.recordings import samples_of
from training.scoring import word_errors

Samples = NDArray[np.float32]

STRETCH = (5.0, 30.0)  # seconds in which nobody speaks
BLOCK = 6  # recordings between two stretches
PAUSE = (0.3, 2.0)  # seconds between recordings of a block
LATE = 1.0  # seconds after a recording in which its last characters may still be written
STEP_MS = SAMPLES_PER_STEP * 1000 // SAMPLE_RATE
TIMES = 5_000  # steps at the beginning and at the end whose cost is compared
WARM = 2_000  # steps until memory is compared


class Spoken(NamedTuple):
    """A recording and its text."""

    samples: Samples  # (N,) at 16 kHz
    text: str


def recordings(manifest: Path) -> list[Spoken]:
    """Return the recordings of a manifest.

    Raises:
        OSError: it, or a recording, is not there.
        ValueError: it is no manifest.
        AudioError: a recording is broken.
    """
    return [Spoken(samples_of(one), one.text) for one in read(manifest)]


class Sound(NamedTuple):
    """A part of the day."""

    samples: Samples
    kind: str  # "speech", "pause" or one of STRETCHES
    recording: int = -1  # which, if it is speech


def _silence(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return 1e-4 * random.standard_normal(n)


def _noise(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return 10 ** random.uniform(-3, -1) * random.standard_normal(n)


def _music(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Chords of four notes with overtones, struck twice a second."""
    beat, time = SAMPLE_RATE // 2, np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    chords = []
    for _ in range(-(-n // beat)):
        pitches = 110 * 2 ** (random.integers(0, 36, 4) / 12)
        tones = sum(np.sin(2 * np.pi * k * p * time) / k for p in pitches for k in (1, 2, 3))
        chords.append(tones * np.exp(-4 * time))
    return 0.08 * np.concatenate(chords)[:n]


def _clipping(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return (3 * random.standard_normal(n)).clip(-1, 1)


def _direct_current(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return random.uniform(-0.9, 0.9) + 1e-4 * random.standard_normal(n)


def _zero(random: np.random.Generator, n: int) -> NDArray[np.float64]:
    return np.zeros(n)


STRETCHES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "silence": _silence,
    "noise": _noise,
    "music": _music,
    "clipping": _clipping,
    "direct current": _direct_current,
    "digital zero": _zero,
}


def day(
    speech: Sequence[Spoken], seed: int = 0, stretch: tuple[float, float] = STRETCH
) -> Iterator[Sound]:
    """Yield sounds for ever: blocks of all recordings in turn, and stretches of each kind."""
    random, recordings = np.random.default_rng(seed), cycle(range(len(speech)))

    def lasting(seconds: tuple[float, float]) -> int:
        return round(random.uniform(*seconds) * SAMPLE_RATE)

    for kind in cycle(STRETCHES):
        for _ in range(BLOCK):
            recording = next(recordings)
            yield Sound(speech[recording].samples, "speech", recording)
            yield Sound(_silence(random, lasting(PAUSE)).astype(np.float32), "pause")
        made = STRETCHES[kind](random, lasting(stretch))
        yield Sound(made.astype(np.float32), kind)


@dataclass
class Findings:
    """What a day of sound showed."""

    hours: float = 0.0
    first_wer: float = 0.0  # over each recording's first time
    last_wer: float = 0.0  # over each recording's last time
    errors: list[tuple[int, int]] = field(default_factory=list)  # word errors and words, each time
    written: dict[str, int] = field(default_factory=dict)  # characters where nobody spoke, by kind
    seconds: dict[str, float] = field(default_factory=dict)  # of sound, by kind
    rounds: int = 0  # times that all recordings were heard
    utterances: int = 0
    longest: float = 0.0  # seconds of an utterance
    drift_ms: float = 0.0  # largest, of a character's time against its step counted in integers
    state_bytes: tuple[int, int] = (0, 0)  # of the suspended stream, at the beginning and the end
    memory_mib: tuple[float, float] = (0.0, 0.0)  # peak of the process, at both
    step_ms: tuple[float, float] = (0.0, 0.0)  # median cost of a step, at both
    worst_ms: tuple[float, float] = (0.0, 0.0)  # 99th percentile


def endure(
    online: Online,
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
        seed: of all that is not speech.
        stretch: least and most seconds in which nobody speaks.

    Raises:
        ValueError: there is no speech.
    """
    if not speech:
        raise ValueError("expected at least one recording, got none")
    return _Day(online, speech, day(speech, seed, stretch)).run(
        round(hours * 3600 * SAMPLE_RATE), report
    )


class _Day:
    """The stream, and what is kept of the day: as little as its findings take."""

    def __init__(self, online: Online, speech: Sequence[Spoken], sounds: Iterator[Sound]) -> None:
        self._stream, self._speech = LiveStream(online), speech
        self._sounds = sounds
        self._delay = online.delay_steps
        self._pushed = self._steps = 0  # samples, steps
        self._open: deque[tuple[int, float, float, list[str]]] = deque()  # recordings not scored
        self._stretches: deque[tuple[str, float, float]] = deque(maxlen=2 * BLOCK)
        self._first: list[float] = []  # seconds that steps took
        self._last: deque[float] = deque(maxlen=TIMES)
        self.found = Findings(written=dict.fromkeys(STRETCHES, 0))

    def run(self, total: int, report: Callable[[str, int, int], None]) -> Findings:
        found = self.found
        while self._pushed < total:
            self._hear(next(self._sounds))
            report("heard", self._pushed // SAMPLE_RATE, total // SAMPLE_RATE)
        self._score(float("inf"))
        found.hours = self._pushed / SAMPLE_RATE / 3600
        each = len(self._speech)
        found.rounds = len(found.errors) // each
        found.first_wer, found.last_wer = _rate(found.errors[:each]), _rate(found.errors[-each:])
        found.state_bytes = (found.state_bytes[0], self._size())
        found.memory_mib = (found.memory_mib[0], _memory())
        first, last = np.array(self._first) * 1000, np.array(self._last) * 1000
        found.step_ms = (float(np.median(first)), float(np.median(last)))
        found.worst_ms = (float(np.quantile(first, 0.99)), float(np.quantile(last, 0.99)))
        return found

    def _hear(self, sound: Sound) -> None:
        """Push one sound, a step's worth at a time."""
        start, end = (x / SAMPLE_RATE for x in (self._pushed, self._pushed + len(sound.samples)))
        kind = sound.kind
        self.found.seconds[kind] = self.found.seconds.get(kind, 0.0) + end - start
        if kind == "speech":
            if self._open:  # what is late in the recording before is taken for this one's
                recording, begun, late, text = self._open.pop()
                self._open.append((recording, begun, min(late, start), text))
            self._open.append((sound.recording, start, end + LATE, []))
        elif kind in STRETCHES:
            self._stretches.append((kind, start + LATE, end))
        for first in range(0, len(sound.samples), SAMPLES_PER_STEP):
            piece = sound.samples[first : first + SAMPLES_PER_STEP]
            self._pushed += len(piece)
            began = perf_counter()
            heard = list(self._stream.push(piece))
            self._note(perf_counter() - began)
            for characters, endpoint in heard:
                self._take(characters)
                if endpoint:
                    self.found.utterances += 1
                    length = endpoint.end - endpoint.start
                    self.found.longest = max(self.found.longest, length)
        self._score(end - 2 * LATE)

    def _note(self, seconds: float) -> None:
        if len(self._first) < TIMES:
            self._first.append(seconds)
        self._last.append(seconds)
        if len(self._last) == WARM and not self.found.state_bytes[0]:
            self.found.state_bytes = (self._size(), 0)
            self.found.memory_mib = (_memory(), 0.0)

    def _take(self, characters: list[Character]) -> None:
        """Take what one step wrote: its time is that of the step, counted in integers."""
        self._steps += 1
        expected = max(self._steps - self._delay, 0) * STEP_MS
        for one in characters:
            drift = abs(one.time * 1000 - expected)
            self.found.drift_ms = max(self.found.drift_ms, drift)
            for _, start, end, text in self._open:
                if start <= one.time < end:
                    text.append(one.text)
                    break
            for kind, start, end in self._stretches:
                if start <= one.time < end:
                    self.found.written[kind] += 1

    def _score(self, before: float) -> None:
        """Count the errors in the recordings that ended before that second."""
        while self._open and self._open[0][2] < before:
            recording, _, _, text = self._open.popleft()
            hypothesis = " ".join("".join(text).split())
            errors = word_errors(self._speech[recording].text, hypothesis)
            self.found.errors.append((errors.total, errors.length))

    def _size(self) -> int:
        """Return the bytes of the suspended stream."""
        return len(self._stream.suspend())


def _rate(errors: Sequence[tuple[int, int]]) -> float:
    return sum(wrong for wrong, _ in errors) / max(sum(words for _, words in errors), 1)


def _memory() -> float:
    """Return the largest memory that the process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
