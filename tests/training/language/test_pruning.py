"""A language model that is pruned to a size loses what the text needs least, and sums to one."""

import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortado.model.search.language_file import STEPS, read_language
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.language.test_estimate import Arrays, Stored, lasting, texts
from cortado.tests.training.trigram import BEGIN, LETTERS, numbered, sentences, used
from cortado.training.language.estimate import Estimate, estimate
from cortado.training.language.file import SearchWeights, packed, write
from cortado.training.language.pruning import fitted, pruned, supported


def without(model: Estimate, share: float, seed: int) -> Arrays:
    """The arrays when some trigrams are dropped, and some bigrams that no other one stands on."""
    arrays, random = model.arrays, np.random.default_rng(seed)
    threes = random.random(len(model.trigrams)) > share
    found = Estimate(arrays, np.zeros(len(model.bigrams)), threes.astype(float))
    needed = supported(arrays, found.trigrams) > 0
    return pruned(arrays, needed | (random.random(len(needed)) > share), threes)


@lasting
@given(texts=texts, share=st.sampled_from([0.0, 0.3, 0.9, 1.0]), seed=st.integers(0, 99))
def test_what_follows_any_two_words_sums_to_one(texts: list[str], share: float, seed: int) -> None:
    words = numbered(used(texts))
    whole = estimate(texts, LETTERS)
    found = Stored(without(whole, share, seed), words)
    for before, last in product([BEGIN, *words[1:]], repeat=2):
        total = sum(found.probability(before, last, word) for word in words[1:])
        assert total == pytest.approx(1, abs=1e-5)


@lasting
@given(texts=texts)
def test_where_all_stays_nothing_changes(texts: list[str]) -> None:
    arrays = estimate(texts, LETTERS).arrays
    found = without(Estimate(arrays, arrays["seconds"], arrays["thirds"]), 0, 0)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_allclose(found[name], array, atol=1e-4)


def test_a_dropped_trigram_has_the_probability_that_is_left_to_its_bigram() -> None:
    texts = sentences(1, 120)
    words, model = numbered(used(texts)), estimate(texts, LETTERS)
    before = Stored(model.arrays, words)
    worst = int(model.trigrams.argmin())
    after = Stored(
        pruned(
            model.arrays,
            np.ones(len(model.bigrams), bool),
            np.arange(len(model.trigrams)) != worst,
        ),
        words,
    )
    [gram] = set(before.p) - set(after.p)
    own = before.p[gram] - before.left[gram[:2]] * before.p[gram[1:]]
    assert after.left[gram[:2]] == pytest.approx(before.left[gram[:2]] + own, rel=1e-4)
    assert after.probability(*gram) == after.left[gram[:2]] * after.p[gram[1:]]
    assert after.p[gram[1:]] == pytest.approx(before.p[gram[1:]], rel=1e-4)


def test_a_worth_is_what_the_text_loses() -> None:
    texts = sentences(1, 120)
    words, model = numbered(used(texts)), estimate(texts, LETTERS)
    found = Stored(model.arrays, words)
    grams = [gram for gram in found.p if len(gram) == 3]
    spoken = [[BEGIN, *text.split(), "</s>"] for text in texts]
    for gram, worth in zip(grams, model.trigrams, strict=True):
        uses = sum(tuple(said[n : n + 3]) == gram for said in spoken for n in range(len(said)))
        shorter = found.left[gram[:2]] * found.p[gram[1:]]
        assert worth == pytest.approx(uses * np.log(found.p[gram] / shorter), rel=1e-3)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_file_keeps_to_its_limit_and_what_is_worth_most(share: float, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    names = ["".join(random.choice([*LETTERS], 7)) for _ in range(200)]
    texts = sentences(1, 2_000, names)
    words, model = numbered(used(texts)), estimate(texts, LETTERS)
    write(tmp_path / "whole", packed(model.arrays), LETTERS, SearchWeights())
    limit = int(share * (tmp_path / "whole").stat().st_size)
    arrays = fitted(model, limit)
    write(tmp_path / "part", arrays, LETTERS, SearchWeights())
    assert limit - 3_000 < (tmp_path / "part").stat().st_size <= limit
    bounds = {name: np.cumsum([0, *arrays[name]]) for name in ("starts", "ends")}
    kept, whole = Stored({**arrays, **bounds}, words), Stored(model.arrays, words)
    assert {gram for gram in whole.p if len(gram) == 1} < set(kept.p) < set(whole.p)
    threes = [gram for gram in whole.p if len(gram) == 3]
    stays = np.array([gram in kept.p for gram in threes])
    if stays.any():
        assert model.trigrams[stays].min() >= model.trigrams[~stays].max()


def test_a_limit_below_the_words_is_refused() -> None:
    model = estimate(sentences(1, 60), LETTERS)
    with pytest.raises(ValueError, match=r"expected room for the words, 0.00 MB, got 0.001 MB"):
        fitted(model, 1_000)


@lasting
@given(texts=texts)
def test_a_packed_file_is_read_as_another(texts: list[str]) -> None:
    arrays = estimate(texts, LETTERS).arrays
    vocabulary = Vocabulary(" " + LETTERS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lm"
        write(path, arrays, LETTERS, SearchWeights())
        usual = read_language(path, vocabulary)
        write(path, packed(arrays), LETTERS, SearchWeights())
        found = read_language(path, vocabulary)
    for name in ("children", "words", "starts", "seconds", "ends", "thirds", "sums1"):
        assert np.array_equal(getattr(found, name), getattr(usual, name))
    np.testing.assert_allclose(np.log(found.left2), np.log(usual.left2), atol=0.51 / STEPS)
