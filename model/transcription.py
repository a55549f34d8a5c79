"""Speech to text for programs: what `from cortado import load, transcribe` gives."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortado.model.audio.decode import Resampler, stream
from cortado.model.backends.choice import load_recognizer
from cortado.model.checkpoint_reader import DEFAULT
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.search.beam import asked_for
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.live import LiveStream
from cortado.model.streaming.update import Update

Audio = str | PathLike[str] | NDArray[np.floating[Any]]  # a file, or (N,) samples in [-1, 1)


@dataclass(frozen=True)
class Word:
    """A word, and when its first and its last character were heard."""

    text: str
    start: float  # seconds
    end: float


@dataclass(frozen=True)
class Transcript:
    """What was heard. `str` of it is its text."""

    characters: tuple[Character, ...]

    @property
    def text(self) -> str:
        """The characters, without the spaces around them."""
        return "".join(one.text for one in self.characters).strip()

    @property
    def words(self) -> tuple[Word, ...]:
        """The words, each with its times."""
        runs = groupby(self.characters, key=lambda one: one.text.isspace())
        return tuple(_word(list(run)) for is_space, run in runs if not is_space)

    def __str__(self) -> str:
        return self.text


def _word(spoken: list[Character]) -> Word:
    return Word("".join(one.text for one in spoken), spoken[0].time, spoken[-1].time)


class Transcriber:
    """A loaded recogniser: for files and arrays, and for any number of live streams."""

    def __init__(self, online: StreamingRecognizer) -> None:
        self._online = online

    @property
    def backend(self) -> str:
        """What steps the model, and how streams are searched."""
        return self._online.name

    def transcribe(self, audio: Audio, sample_rate: int = SAMPLE_RATE) -> Transcript:
        """Return what is said in a recording.

        Args:
            audio: a file of any common kind, or (N,) samples in [-1, 1).
            sample_rate: of samples, in Hz; a file knows its own.

        Raises:
            AudioError: the file gives no sound, or not all that it announces.
            ValueError: the samples are none, or have a rate outside 8000..192000 Hz.
        """
        if isinstance(audio, np.ndarray):
            live = self.stream(sample_rate)
            return Transcript((*live.push(audio), *live.end()))
        live = self.stream()
        with closing(stream(Path(audio))) as pieces:
            return Transcript((*(one for piece in pieces for one in live.push(piece)), *live.end()))

    def stream(self, sample_rate: int = SAMPLE_RATE) -> "Live":
        """Begin a live stream of samples at a rate in Hz.

        Raises:
            ValueError: the rate is outside 8000..192000 Hz.
        """
        return Live(LiveStream(self._online), Resampler(sample_rate))


class Live:
    """One live stream: samples in, characters out as soon as they are certain."""

    def __init__(self, stream: LiveStream, resampler: Resampler) -> None:
        self._stream, self._resampler = stream, resampler

    def push(self, samples: NDArray[np.floating[Any]]) -> list[Character]:
        """Hear (N,) more samples in [-1, 1), any number; return the characters that they decide.

        Raises:
            ValueError: they are not such samples, or the stream has ended.
        """
        if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
            got = f"{samples.shape} {samples.dtype}"
            raise ValueError(f"expected samples (N,) as floats in [-1, 1), got {got}")
        return _characters(self._stream.push(self._resampler.push(samples)))

    def end(self) -> list[Character]:
        """Hear nothing more; return the last characters."""
        rest = _characters(self._stream.push(self._resampler.finish()))
        return rest + _characters(self._stream.end())


def _characters(steps: Iterator[Update]) -> list[Character]:
    return [one for heard in steps for one in heard.characters]


def load(
    checkpoint: str | PathLike[str] = DEFAULT,
    *,
    backend: str = "auto",
    beam: int | None = None,
    hold: int | None = None,
    lm: str | PathLike[str] | None = None,
) -> Transcriber:
    """Return the recogniser of a checkpoint; the first time on a machine this compiles.

    Args:
        checkpoint: its folder; the shipped model if not given.
        backend: "auto", or one that `cortado transcribe --help` names.
        beam: hypotheses of the search, 8 if not given; 1 for the greedy scan.
        hold: milliseconds for which the search may leave a character open.
        lm: a language model's file or "none"; the checkpoint's own if not given.

    Raises:
        CheckpointError: the checkpoint is missing or broken.
        LanguageError: so is the language model.
        ValueError: the backend is not there, or does not know such a model or search.
    """
    words = None if lm is None else str(lm)
    online = load_recognizer(Path(checkpoint), backend, asked_for(beam, hold, words), words)
    return Transcriber(online)


def transcribe(audio: Audio, sample_rate: int = SAMPLE_RATE) -> Transcript:
    """Return what the shipped model hears in a file or in (N,) samples in [-1, 1).

    The model is loaded by the first call. `load` gives others.

    Raises:
        AudioError: the file gives no sound, or not all that it announces.
        ValueError: the samples are none, or have a rate outside 8000..192000 Hz.
    """
    return _shipped().transcribe(audio, sample_rate)


@cache
def _shipped() -> Transcriber:
    return load()
