"""Loads what transcribes files: a recogniser for each of them, and a voice activity detector."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from cortado.model.arrays import Samples
from cortado.model.audio.decode import stream
from cortado.model.audio.error import STDIN, AudioError
from cortado.model.backends.choice import check_language_model_used, choose, load_recognizer
from cortado.model.checkpoint_reader import read_config
from cortado.model.search.language_file import language_of
from cortado.model.search.settings import Beam
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.vad import Vad, load_vad

RecognizerFor = Callable[[Path], StreamingRecognizer]


class Loading(NamedTuple):
    """What is loaded to transcribe, in this process or in another."""

    checkpoint: Path
    backend: str = "auto"
    beam: Beam | None = None
    lm: str | None = None
    vad: bool = False

    def load(self) -> tuple[RecognizerFor, Vad | None]:
        """Return the recogniser of each file, and the voice activity detector that is asked for.

        Raises:
            ValueError: the checkpoint, the backend, the language model or the detector is missing.
        """
        detector = load_vad() if self.vad else None
        return recognizer_of_each(self.checkpoint, self.backend, self.beam, self.lm), detector


def recognizer_of_each(
    folder: Path, backend: str = "auto", beam: Beam | None = None, lm: str | None = None
) -> RecognizerFor:
    """Return a function from a file to the recogniser of a checkpoint's folder for it.

    All files have the same recogniser, unless the model normalises features by statistics of the
    speaker. Then each file is its own speaker, and is read twice.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
        LanguageError: the language model that is asked for is missing or broken.
        ValueError: the backend is not there, or does not know such a model.
    """
    config = read_config(folder)
    if not config.features.by_speaker:
        streaming = load_recognizer(folder, backend, beam, lm)
        return lambda path: streaming
    from cortado.model.adaptation import adapted  # needs torch, which streaming models do not
    from cortado.model.checkpoint import load
    from cortado.model.features.speaker import statistics_of

    recognizer = load(folder)
    features = recognizer.features
    without_speaker = adapted(recognizer, statistics_of(features, []))
    words = language_of(folder, config.vocabulary, lm)
    chosen = choose(without_speaker, backend, beam, words)  # reports errors before any file is read
    check_language_model_used(lm, chosen.name, chosen.beam.uses_language_model)

    def adapted_to(path: Path) -> StreamingRecognizer:
        if path == STDIN:
            raise ValueError("expected a file, which this model reads twice, got standard input")
        with closing(stream(path)) as pieces:
            statistics = statistics_of(features, [_readable(pieces)])
        return choose(adapted(recognizer, statistics), backend, beam, words)

    return adapted_to


def _readable(pieces: Iterable[Samples]) -> Iterator[Samples]:
    """Yield a file's pieces as far as it can be read; its second reading reports the error."""
    with suppress(AudioError):
        yield from pieces
