"""Speech to text for programs: what `from cortado import load, transcribe` gives."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Samples, as_samples
from cortado.model.audio.decode import stream
from cortado.model.audio.remote import at
from cortado.model.audio.resampler import Resampler
from cortado.model.backends.choice import load_recognizer
from cortado.model.checkpoint_reader import DEFAULT
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.search.settings import beam_from_options
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.live import LiveStream, listen
from cortado.model.streaming.options import StreamOptions
from cortado.model.streaming.update import Update
from cortado.model.transcript import Gathering, Transcript

Audio = str | PathLike[str] | NDArray[np.floating[Any]]  # a file, or (N,) samples in [-1, 1)


class Transcriber:
    """A loaded recogniser: for files and arrays, and for any number of live streams."""

    def __init__(self, recognizer: StreamingRecognizer) -> None:
        self._recognizer = recognizer

    @property
    def backend(self) -> str:
        """What steps the model, and how streams are searched."""
        return self._recognizer.name

    def transcribe(
        self,
        audio: Audio,
        sample_rate: int = SAMPLE_RATE,
        phrases: Sequence[str] = (),
        alternatives: int = 0,
    ) -> Transcript:
        """Return what is said in a recording.

        Args:
            audio: a file of any common kind, its address, or (N,) samples in [-1, 1).
            sample_rate: of samples, in Hz; a file knows its own.
            phrases: that are likely to be said, such as names; at most 100.
            alternatives: of each word, at most, up to 10; `nbest.texts` makes texts of them.

        Raises:
            AudioError: the file gives no sound, or not all that it announces.
            ValueError: the audio is neither, the samples are none or have a rate outside
                8000..192000 Hz, or the phrases or alternatives are too many.
            ModuleNotFoundError: the audio is an address, and the extra `archive` is not installed.
        """
        if isinstance(audio, np.ndarray):
            pieces = _resampled(audio, sample_rate)
        elif isinstance(audio, str | PathLike):
            pieces = stream(at(fspath(audio)))
        else:
            got = type(audio).__name__
            raise ValueError(f"expected a file or an array of samples, got {got}")
        options = StreamOptions(phrases, alternatives)
        gathering = Gathering()
        with closing(pieces):
            for update in listen(self._recognizer, pieces, options=options):
                gathering.add(update)
        return gathering.transcript()

    def stream(self, sample_rate: int = SAMPLE_RATE, phrases: Sequence[str] = ()) -> "Live":
        """Begin a live stream of samples at a rate in Hz, in which `phrases` are likely.

        Raises: ValueError where the rate is outside 8000..192000 Hz, or the phrases are too many.
        """
        stream = LiveStream(self._recognizer, options=StreamOptions(phrases))
        return Live(stream, Resampler(sample_rate))


class Live:
    """One live stream: samples in, characters out as soon as they are certain."""

    def __init__(self, stream: LiveStream, resampler: Resampler) -> None:
        self._stream, self._resampler = stream, resampler

    def push(self, samples: NDArray[np.floating[Any]]) -> list[Character]:
        """Hear (N,) more samples in [-1, 1), any number; return the characters that they decide.

        Raises: ValueError where they are not such samples, or the stream has ended.
        """
        return _characters(self._stream.push(self._resampler.push(as_samples(samples))))

    def end(self) -> list[Character]:
        """Hear nothing more; return the last characters, none for a second call."""
        last = self._resampler.finish()
        rest = _characters(self._stream.push(last)) if len(last) else []
        return rest + _characters(self._stream.end())


def _resampled(
    samples: NDArray[np.floating[Any]], sample_rate: int
) -> Generator[Samples, None, None]:
    resampler = Resampler(sample_rate)
    yield resampler.push(as_samples(samples))
    yield resampler.finish()


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
        beam: hypotheses of the search, 64 if not given; 1 for the greedy scan.
        hold: milliseconds for which the search may leave a character open.
        lm: a language model's file or "none"; the checkpoint's own if not given.

    Raises:
        CheckpointError: the checkpoint is missing or broken.
        LanguageError: so is the language model.
        ValueError: the backend is not there, or does not know such a model or search.
    """
    words = None if lm is None else str(lm)
    recognizer = load_recognizer(
        Path(checkpoint), backend, beam_from_options(beam, hold, words), words
    )
    return Transcriber(recognizer)


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
