"""Every backend keeps the one contract of streams."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model import checkpoint
from cortado.model.audio.decode import decode
from cortado.model.backends.cpu.recognizer import INTEGERS, FastRecognizer, available_products
from cortado.model.backends.cuda import DeviceRecognizer
from cortado.model.backends.reference import TILE, ReferenceRecognizer
from cortado.model.config import Confidence, RecognizerConfig
from cortado.model.recognizer import Recognizer
from cortado.model.search.settings import (
    DEFAULT_BEAM,
    GREEDY,
    MAX_WAIT_MS,
    MAX_WIDTH,
    Beam,
    beam_from_options,
)
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.recordings import transcribe_many
from cortado.tests import needs
from cortado.tests.model.backends.contract import verify
from cortado.tests.model.search.words import PHONES, said
from cortado.tests.model.untrained import TINY, TINY_SEED, noise, untrained

SURE = Confidence(slope=0.5, offset=1.0, wait=-1.0, strangeness=-1.0)
# of more hypotheses those of an untrained model lie so near each other that rounding decides
BEAM = DEFAULT_BEAM._replace(width=64)
WORDS = BEAM._replace(words=said(), ctc=0.5, confidence=SURE)
SPOKEN = WORDS._replace(words=said(pronounced=True), phones=0.5)
FEW = 8  # hypotheses, which are enough for the contract: PyTorch takes its time for each


def widest() -> Beam:
    """Return the search of spoken words with the most hypotheses and the longest wait there are."""
    found = beam_from_options(MAX_WIDTH, MAX_WAIT_MS)
    assert found
    return found._replace(
        words=SPOKEN.words, ctc=SPOKEN.ctc, phones=SPOKEN.phones, confidence=SPOKEN.confidence
    )


Make = Callable[[Recognizer], StreamingRecognizer]

BACKENDS: dict[str, Make] = {  # spoken words have all the state that words alone have
    "reference": ReferenceRecognizer,
    "reference-spoken": lambda model: ReferenceRecognizer(model, SPOKEN._replace(width=FEW)),
    "device-on-cpu": lambda model: DeviceRecognizer(model, "cpu", TILE),
    "fast-beam": lambda model: FastRecognizer(model, products="fp32", beam=DEFAULT_BEAM),
    "fast-widest": lambda model: FastRecognizer(model, products="fp32", beam=widest()),
    **{
        f"fast-{name}": partial(FastRecognizer, products=name)
        for name in available_products()
        if name != INTEGERS  # what tells an untrained model's frames apart is below their rounding
    },
}
TRAINED: dict[str, Make] = {
    f"fast-{name}": partial(FastRecognizer, products=name)
    for name in available_products()
    if name == INTEGERS
} or {"reference": ReferenceRecognizer}


@cache
def model() -> Recognizer:
    return untrained(RecognizerConfig(phones=PHONES)).recognizer


@cache
def tiny() -> Recognizer:
    """A model that searches faster in PyTorch, and writes enough where it searches."""
    return untrained(replace(TINY, phones=PHONES), TINY_SEED).recognizer


def speech() -> list[NDArray[np.float32]]:
    return [noise(number, 0.6 + 0.2 * number) for number in range(5)]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_keeps_the_contract(name: str) -> None:
    verify(BACKENDS[name](tiny() if name == "reference-spoken" else model()), speech())


@needs.gpu
def test_a_gpu_keeps_the_contract() -> None:
    verify(DeviceRecognizer(model()), speech())


@pytest.mark.shared
@needs.recordings
@pytest.mark.parametrize("name", TRAINED)
def test_the_shipped_model_keeps_the_contract_on_real_speech(name: str) -> None:
    files = sorted(needs.RECORDINGS.glob("audio/*/*.opus"))[:4]
    heard = [decode(path)[: 32_000 + 7_001 * k] for k, path in enumerate(files)]
    verify(TRAINED[name](checkpoint.load()), heard)


@pytest.mark.parametrize(
    "beam", [GREEDY, BEAM, WORDS, SPOKEN], ids=["greedy", "beam", "words", "spoken"]
)
def test_in_fp32_the_fast_backend_writes_what_the_reference_writes(beam: object) -> None:
    reference, fast = (
        [each for _, one in sorted(transcribe_many(backend, speech())) for each in one]
        for backend in (
            ReferenceRecognizer(model(), beam),  # type: ignore[arg-type]
            FastRecognizer(model(), products="fp32", beam=beam),  # type: ignore[arg-type]
        )
    )
    facts = [[(each.text, each.time, each.late) for each in one] for one in (reference, fast)]
    assert facts[0] == facts[1]
    # A hypothesis at the edge of the beam, kept by one alone, moves a confidence but no text.
    sure = np.array([[each.confidence for each in one] for one in (reference, fast)])
    apart = np.abs(sure[0] - sure[1])
    assert apart.max(initial=0) < 0.05
    assert (apart <= 0.005).mean() > 0.95
