"""Whether the CTC head hears no character."""

import numpy as np
import pytest
import torch

from cortado.model.backends.heads import BLANK, LANES, Head, blanks, head
from cortado.tests.model.untrained import TINY, untrained


@pytest.mark.parametrize("streams", [1, 7, 40])
def test_blanks_are_those_of_the_softmax(streams: int) -> None:
    random = np.random.default_rng(streams)
    frames = random.normal(size=(streams, 16)).astype(np.float32)
    head = Head(*(random.normal(size=s).astype(np.float32) for s in ((16, 5), 5)))
    logits = frames.astype(np.float64) @ head.weight + head.bias
    exact = np.exp(logits[:, 0]) / np.exp(logits).sum(1)
    sure = abs(exact - BLANK) > 1e-5
    assert (blanks(frames, head) == (exact >= BLANK))[sure].all()


def test_the_blanks_of_a_frame_are_the_same_in_a_batch_of_any_size() -> None:
    frames = np.zeros((33, 4), np.float32)
    head = Head(np.zeros((4, 3), np.float32), np.full(3, 0.1, np.float32))
    assert not blanks(frames, head).any()  # a third each
    assert blanks(frames, head._replace(bias=np.array([800, 0, -np.inf], np.float32))).all()


def test_the_head_is_that_of_the_recogniser() -> None:
    recognizer = untrained(TINY).recognizer
    recognizer.ctc.weight *= 10
    recognizer.ctc.bias[-1] += 6
    frames = torch.randn(50, TINY.encoder.width, generator=torch.Generator().manual_seed(0))
    exact = recognizer.ctc(frames).softmax(1)[:, -1].numpy()
    assert 0 < (exact >= BLANK).sum() < len(frames)
    found = head(recognizer)
    assert len(found.bias) % LANES == 0
    assert np.array_equal(blanks(frames.numpy(), found), exact >= BLANK)
