"""What steps streams, by one constructor: the reference in PyTorch, here or on a GPU, or the fast
backend for CPUs.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from cortado.model.checkpoint_reader import BROKEN, DEFAULT, CheckpointData, CheckpointError, read
from cortado.model.search import language_model as language
from cortado.model.search.beam import USUAL, Beam
from cortado.model.search.language_model import NONE, Language
from cortado.model.streaming.interface import StreamingRecognizer

if TYPE_CHECKING:  # they bring torch, without which the fast backend serves
    from cortado.model.recognizer import Recognizer

CHOICES = (
    *("auto", "fast", "fast-amx", "fast-int8", "fast-bf16", "fast-fp32"),
    *("reference", "cuda"),
)
FAST = CHOICES[:6]  # those that may be the fast backend


def load_recognizer(
    folder: Path = DEFAULT, backend: str = "auto", beam: Beam | None = None, lm: str | None = None
) -> StreamingRecognizer:
    """Return the recogniser of a checkpoint in the backend that is asked for.

    Args:
        folder: of the checkpoint.
        backend: one of the CHOICES.
        beam: how streams are searched; None for the usual way, where there is a search.
        lm: which language model a search weighs, as `language.of` has it.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
        LanguageError: the language model is missing or broken, or of words that this one has not.
        ValueError: the backend is not there, or does not know such a model or search.
    """
    data = read(folder)
    words = language.of(folder, data.config.vocabulary, lm)
    found = _fast(data, backend, folder, searched(beam, words)) if backend in FAST else None
    if found is None:
        from cortado.model.checkpoint import restored

        found = choose(restored(data, folder), backend, beam, words)
    check_weighed(lm, found.name, found.beam.weighs_words)
    return found


def check_weighed(lm: str | None, name: str, weighed: bool) -> None:
    """Look whether the language model that a user names is weighed in a backend of such a name.

    Raises:
        ValueError: it is not: nothing is searched there.
    """
    if lm not in (None, "none") and not weighed:
        raise ValueError(f"expected a search, which --lm needs, got the greedy scan of {name}")


def searched(beam: Beam | None, words: Language) -> Beam:
    """Return how streams are searched, None for the usual way, with `words` if it has none yet."""
    beam = USUAL if beam is None else beam
    return beam._replace(words=words) if beam.width > 1 and not beam.words.weight else beam


def _fast(
    data: CheckpointData, backend: str, folder: Path, beam: Beam
) -> StreamingRecognizer | None:
    """Return a checkpoint's recogniser in the fast backend, or None where it is unknown to that."""
    from cortado.model.backends.cpu.recognizer import (  # brings a compiler
        FastRecognizer,
        unsupported,
    )

    if unsupported(data) is not None:
        return None
    products = _products(backend)
    try:
        return FastRecognizer(data, products=products, beam=beam)
    except BROKEN as error:
        raise CheckpointError(f"expected a checkpoint in {folder}, got {error}") from error


def choose(
    recognizer: "Recognizer",
    backend: str = "auto",
    beam: Beam | None = None,
    words: Language = NONE,
) -> StreamingRecognizer:
    """Return a recogniser in a backend: "auto" is the fast one where it knows the model.

    Args:
        recognizer: what is heard with.
        backend: one of the CHOICES.
        beam: how streams are searched; None for the usual way, where there is a search.
        words: the language model that a search weighs.

    Raises:
        ValueError: the backend is not there, or does not know such a model or search, or nothing
            streams it.
    """
    if backend not in CHOICES:
        raise ValueError(f"expected a backend among {', '.join(CHOICES)}, got {backend!r}")
    from cortado.model.backends.reference import ReferenceRecognizer
    from cortado.model.features.speaker import check_streams

    check_streams(recognizer.config)
    way = searched(beam, words)
    if backend == "reference":
        return ReferenceRecognizer(recognizer, way)
    if backend == "cuda":
        from cortado.model.backends.cuda import DeviceRecognizer

        if beam is not None and beam.width > 1:
            raise ValueError(
                f"expected 1 hypothesis with the backend cuda, got {beam.width}: it has no search"
            )
        return DeviceRecognizer(recognizer, backend)
    from cortado.model.backends.cpu.recognizer import (  # brings a compiler
        FastRecognizer,
        unsupported,
    )

    if backend == "auto" and unsupported(recognizer) is not None:
        return ReferenceRecognizer(recognizer, way)
    return FastRecognizer(recognizer, products=_products(backend), beam=way)


def _products(backend: str) -> str | None:
    """Return what a backend's name says of its matrix products; nothing for the fastest."""
    return backend.partition("-")[2] or None
