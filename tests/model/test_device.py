"""A table on a device does what the reference's does: the CPU here, a GPU where there is one."""

import numpy as np
import pytest
import torch

from cortado.model.backends.choice import choose
from cortado.model.backends.cuda import DeviceRecognizer
from cortado.model.backends.reference import TILE, ReferenceTable, transcribe, transcribe_many
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.streaming.suspension import SnapshotError
from cortado.tests.model.untrained import noise, untrained

STREAMS = 2 * TILE + 3
GPU = torch.cuda.is_available()
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not GPU, reason="no GPU"))]


def pair(device: str) -> tuple[ReferenceTable, ReferenceTable]:
    """The reference's table, and one on the device in tiles of the same size."""
    other = DeviceRecognizer(untrained().recognizer, device, TILE)
    return untrained().table(STREAMS), other.table(STREAMS)


def some(random: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    count = int(random.integers(1, STREAMS + 1))
    return random.permutation(STREAMS)[:count].astype(np.int64)


@pytest.mark.parametrize("device", DEVICES)
def test_streams_that_come_and_go_write_what_they_write_in_the_reference(device: str) -> None:
    random = np.random.default_rng(0)
    here, there = pair(device)
    written = other = 0
    for _ in range(60):
        rows = some(random)
        heard = random.normal(0, 0.1, (len(rows), SAMPLES_PER_STEP)).astype(np.float32)
        symbols = here.step(heard, rows)
        other += int((there.step(heard, rows) != symbols).sum())
        other += int((there.blanks(rows) != here.blanks(rows)).sum())
        written += int((symbols >= 0).sum())
        for table in (here, there):
            getattr(table, ("reset", "renew")[len(rows) % 2])(rows[:2])
    assert written > 100
    assert other == 0 if device == "cpu" else other < written / 20  # rounded otherwise


@pytest.mark.parametrize("device", DEVICES)
def test_a_stream_goes_on_in_another_row_of_another_table(device: str) -> None:
    random = np.random.default_rng(1)
    _, one = pair(device)
    _, other = pair(device)
    heard = random.normal(0, 0.1, (40, 1, SAMPLES_PER_STEP)).astype(np.float32)
    first, second = np.array([4]), np.array([STREAMS - 1])
    for step in heard[:20]:
        one.step(step, first)
    other.resume(int(second[0]), one.suspend(4))
    for step in heard[20:]:
        np.testing.assert_array_equal(other.step(step, second), one.step(step, first))
    with pytest.raises(SnapshotError, match="another model"):
        other.resume(0, choose(untrained(seed=1).recognizer, "reference").table(1).suspend(0))


def test_nothing_steps_to_nothing() -> None:
    _, there = pair("cpu")
    nobody = np.zeros(0, np.int64)
    assert there.step(np.zeros((0, SAMPLES_PER_STEP), np.float32), nobody).shape[0] == 0
    with pytest.raises(ValueError, match=r"expected samples \(1, 640\), got \(1, 641\)"):
        there.step(np.zeros((1, SAMPLES_PER_STEP + 1), np.float32), np.zeros(1, np.int64))


@pytest.mark.skipif(GPU, reason="there is a GPU")
def test_without_a_gpu_it_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a GPU"):
        choose(untrained().recognizer, "cuda")


@pytest.mark.skipif(not GPU, reason="no GPU")
def test_on_a_gpu_results_do_not_depend_on_the_batch() -> None:
    online = choose(untrained().recognizer, "cuda")
    recordings = [noise(k, 2.0 + 0.3 * k) for k in range(6)]
    together = dict(transcribe_many(online, recordings))
    alone = [transcribe(online, one) for one in recordings]
    assert [together[k] for k in range(len(recordings))] == alone
