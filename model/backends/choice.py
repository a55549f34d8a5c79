"""Choose a backend and load a recogniser in it: the fast one for CPUs, the reference, or a GPU."""

from pathlib import Path
from typing import TYPE_CHECKING

from cortado.model.checkpoint_reader import DEFAULT, CheckpointData, checkpoint_errors, read
from cortado.model.config import UNCALIBRATED, RecognizerConfig
from cortado.model.search.language_file import LanguageError, language_of
from cortado.model.search.language_model import NONE, Language
from cortado.model.search.settings import DEFAULT_BEAM, Beam
from cortado.model.streaming.interface import StreamingRecognizer

if TYPE_CHECKING:  # they bring torch, without which the fast backend serves
    from cortado.model.recognizer import Recognizer

# names of the fast backend, and "auto", which takes it where it supports the model
FAST = ("auto", "fast", "fast-amx", "fast-int8", "fast-bf16", "fast-fp32")
CHOICES = (*FAST, "reference", "cuda")


def load_recognizer(
    folder: Path = DEFAULT, backend: str = "auto", beam: Beam | None = None, lm: str | None = None
) -> StreamingRecognizer:
    """Return a checkpoint's recogniser in the chosen backend.

    Args:
        folder: of the checkpoint.
        backend: one of the CHOICES.
        beam: settings of the search; None for the default of the backend.
        lm: the language model's file or folder, or "none"; None for the checkpoint's own.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
        LanguageError: the language model is missing, broken, or does not fit the vocabulary.
        ValueError: the backend is not available here, or does not support the model or the search.
    """
    _check_known(backend)  # before torch is asked for, which a misspelt name does not need
    data = read(folder)
    words = language_of(folder, data.config.vocabulary, lm)
    found: StreamingRecognizer | None = None
    if backend in FAST:
        found = _fast(data, backend, folder, with_model(beam, words, data.config))
    if found is None:
        from cortado.model.checkpoint import restored

        found = choose(restored(data, folder), backend, beam, words)
    check_language_model_used(lm, found.name, found.beam.uses_language_model)
    return found


def _check_known(backend: str) -> None:
    if backend not in CHOICES:
        raise ValueError(f"expected a backend among {', '.join(CHOICES)}, got {backend!r}")


def check_language_model_used(lm: str | None, backend: str, used: bool) -> None:
    """Check that a language model that a user names is used by a backend.

    Raises: ValueError where it is not, because the backend has no search.
    """
    if lm not in (None, "none") and not used:
        raise ValueError(f"expected a search, which --lm needs, got the greedy scan of {backend}")


def with_model(beam: Beam | None, words: Language, config: RecognizerConfig) -> Beam:
    """Return the search settings, the default for None, with what they lack and a model has.

    That is the language model `words`, the weights of the heads, and how sure it may be.

    Raises: LanguageError where it has phones that the recogniser does not hear.
    """
    beam = DEFAULT_BEAM if beam is None else beam
    if beam.width == 1:
        return beam
    beam = beam if beam.words.weight else beam._replace(words=words)
    if beam.confidence == UNCALIBRATED:
        beam = beam._replace(confidence=config.decoder.confidence)
    if not beam.ctc:
        beam = beam._replace(ctc=config.decoder.ctc_weight)
    heard = config.phones and beam.words.pronounces
    if heard and beam.words.spoken.max() >= config.phones:
        raise LanguageError(
            f"expected phones below {config.phones}, which the recogniser hears, in the language "
            f"model, got {beam.words.spoken.max()}"
        )
    if heard and not beam.phones:
        beam = beam._replace(phones=config.decoder.phone_weight)
    if heard and beam.letters == 1:
        beam = beam._replace(letters=config.decoder.letters)
    if heard and beam.deciding == 1:
        beam = beam._replace(deciding=config.decoder.deciding)
    return beam if heard else beam._replace(phones=0.0)


def _fast(
    data: CheckpointData, backend: str, folder: Path, beam: Beam
) -> StreamingRecognizer | None:
    """Return a checkpoint's recogniser in the fast backend, or None if that does not support it."""
    from cortado.model.backends.cpu.recognizer import (  # brings a compiler
        FastRecognizer,
        chosen_products,
        unsupported,
    )

    if unsupported(data) is not None:
        return None
    products = chosen_products(_products(backend))
    with checkpoint_errors(folder):
        return FastRecognizer(data, products=products, beam=beam)


def choose(
    recognizer: "Recognizer",
    backend: str = "auto",
    beam: Beam | None = None,
    words: Language = NONE,
) -> StreamingRecognizer:
    """Return a recogniser in a backend; "auto" is the fast one where it supports the model.

    Args:
        recognizer: the model.
        backend: one of the CHOICES.
        beam: settings of the search; None for the default of the backend.
        words: the language model that the search uses.

    Raises:
        ValueError: the backend is not available here, it does not support the model or the search,
            or the model cannot stream.
    """
    _check_known(backend)
    from cortado.model.backends.reference import ReferenceRecognizer
    from cortado.model.features.speaker import check_streams

    check_streams(recognizer.config)
    search = with_model(beam, words, recognizer.config)
    if backend == "reference":
        return ReferenceRecognizer(recognizer, search)
    if backend == "cuda":
        from cortado.model.backends.cuda import DeviceRecognizer

        if beam is not None and beam.width > 1:
            raise ValueError(
                "expected no --beam above 1, no --hold and no calibration with the backend cuda, "
                f"which has no search, got a search of {beam.width} hypotheses"
            )
        return DeviceRecognizer(recognizer, backend)
    from cortado.model.backends.cpu.recognizer import (  # brings a compiler
        FastRecognizer,
        unsupported,
    )

    if backend == "auto" and unsupported(recognizer) is not None:
        return ReferenceRecognizer(recognizer, search)
    return FastRecognizer(recognizer, products=_products(backend), beam=search)


def _products(backend: str) -> str | None:
    """Return the matrix products that a backend's name states; None for the fastest."""
    return backend.partition("-")[2] or None
