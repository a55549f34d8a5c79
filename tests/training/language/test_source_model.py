"""The source model: a trigram of the letters that a decoder has learnt from."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from cortado.model.search.source_model import read, take_off
from cortado.training.language.source_model import estimate, write

SYMBOLS = " ab"
TEXTS = ["ab", "aab b", "ab a"]


def probability(symbol: str, before: str) -> float:
    """Return the Witten-Bell probability of a symbol after up to two others, by recursion."""
    texts = ["\0\0" + text + " " for text in TEXTS]
    shorter = 1 / len(SYMBOLS)
    for order in range(len(before) + 1):
        history = before[len(before) - order :]
        after = [
            text[n] for text in texts for n in range(2, len(text)) if text[n - order : n] == history
        ]
        if after:
            kinds = len(set(after))
            shorter = (after.count(symbol) + kinds * shorter) / (len(after) + kinds)
    return shorter


def test_scores_are_those_of_counted_letters_less_their_mean() -> None:
    found = estimate(TEXTS, SYMBOLS)
    none = "\0" + SYMBOLS
    logs = np.array(
        [
            [[np.log(probability(symbol, before + last)) for symbol in SYMBOLS] for before in none]
            for last in none
        ]
    )
    text = [("\0\0" + one + " ") for one in TEXTS]
    written = [(one[n], one[n - 1], one[n - 2]) for one in text for n in range(2, len(one))]
    mean = np.mean([logs[none.index(b), none.index(c), SYMBOLS.index(a)] for a, b, c in written])
    assert np.allclose(found, logs - mean)
    assert np.allclose(np.exp(found + mean).sum(-1), 1)


def test_what_is_no_symbol_is_left_out() -> None:
    assert np.array_equal(estimate(["a-b"], SYMBOLS), estimate(["ab"], SYMBOLS))
    nothing = estimate([], SYMBOLS)
    assert nothing.shape == (4, 4, 3)
    assert not nothing.any()


def test_a_file_is_read_and_taken_off(tmp_path: Path) -> None:
    path, scores = tmp_path / "source.safetensors", estimate(TEXTS, SYMBOLS)
    write(path, scores, 0.25)
    found, share = read(path, len(SYMBOLS))
    assert share == 0.25
    assert np.abs(found - scores).max() < 2e-3
    rates = np.zeros(3, np.float32)
    take_off(found, np.array([1, 0, -1, -1], np.int32), rates)  # after "a", before it a space
    assert np.array_equal(rates, -found[2, 1])


@pytest.mark.parametrize(
    ("tensors", "about", "said"),
    [
        ({}, {"share": "0.3"}, "scores"),
        ({"scores": np.zeros((4, 4, 3), np.float16)}, {}, "share"),
        ({"scores": np.zeros((3, 3, 2), np.float16)}, {"share": "0.3"}, r"\(4, 4, 3\)"),
        ({"scores": np.full((4, 4, 3), np.nan, np.float16)}, {"share": "0.3"}, "finite"),
        ({"scores": np.zeros((4, 4, 3), np.float16)}, {"share": "-1"}, "share of 0 or more"),
    ],
)
def test_a_broken_file_is_refused(
    tensors: dict[str, np.ndarray], about: dict[str, str], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "source.safetensors"
    path.write_bytes(save(tensors, about))
    with pytest.raises(ValueError, match=said):
        read(path, 3)
