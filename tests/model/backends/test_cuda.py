"""A stepper on a device does what the reference's does: the CPU here, a GPU where there is one."""

import numpy as np
import pytest
import torch

from cortado.model.backends.choice import choose
from cortado.model.backends.cuda import DeviceRecognizer
from cortado.model.backends.reference import TILE
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.search.settings import beam_from_options
from cortado.tests import needs
from cortado.tests.model.untrained import TINY, TINY_SEED, untrained

STREAMS = 2 * TILE + 3
GPU = torch.cuda.is_available()
DEVICES = ["cpu", pytest.param("cuda", marks=needs.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_streams_that_come_and_go_write_what_they_write_in_the_reference(device: str) -> None:
    random, model = np.random.default_rng(0), untrained(TINY, TINY_SEED)
    here = model.stepper(STREAMS)
    there = DeviceRecognizer(model.recognizer, device, TILE).stepper(STREAMS)
    written = other = 0
    for _ in range(60):
        count = int(random.integers(1, STREAMS + 1))
        rows = random.permutation(STREAMS)[:count].astype(np.int64)
        heard = random.normal(0, 0.1, (len(rows), SAMPLES_PER_STEP)).astype(np.float32)
        symbols = here.step(heard, rows).symbols
        other += int((there.step(heard, rows).symbols != symbols).sum())
        other += int((there.blanks(rows) != here.blanks(rows)).sum())
        written += int((symbols >= 0).sum())
        for stepper in (here, there):
            getattr(stepper, ("reset", "restart")[len(rows) % 2])(rows[:2])
    assert written > 50
    assert other == 0 if device == "cpu" else other < written / 20  # rounded otherwise


@pytest.mark.parametrize(("width", "hold"), [(16, None), (None, 400)])
def test_what_asks_for_a_search_is_refused_by_name(width: int | None, hold: int | None) -> None:
    with pytest.raises(ValueError, match="no --beam above 1, no --hold and no calibration"):
        choose(untrained().recognizer, "cuda", beam_from_options(width, hold))


@pytest.mark.skipif(GPU, reason="there is a GPU")
def test_without_a_gpu_it_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a GPU"):
        choose(untrained(TINY, TINY_SEED).recognizer, "cuda")
