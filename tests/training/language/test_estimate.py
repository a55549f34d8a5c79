"""What is estimated of text is what Kneser and Ney define, and survives its file."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import safe_open

from cortado.model.search.language_file import unpacked_counts
from cortado.tests import needs
from cortado.tests.training.trigram import (
    BEGIN,
    LETTERS,
    UNKNOWN,
    Gram,
    Trigram,
    numbered,
    sentences,
    used,
)
from cortado.training.data.pronounce import PHONES
from cortado.training.language import estimate as estimating
from cortado.training.language.estimate import COMMON_SHARE, common_words, estimate
from cortado.training.language.file import SearchWeights, write
from cortado.training.language.lexicon import SPECIAL, pronunciations, spelt

Arrays = dict[str, NDArray[Any]]

lasting = settings(max_examples=30)
texts = st.builds(sentences, st.integers(0, 10_000), st.integers(1, 120))


class Stored:
    """The n-grams of a file's arrays, and what their histories leave to shorter ones."""

    def __init__(self, arrays: Arrays, words: list[str]) -> None:
        self.p: dict[Gram, float] = {}
        self.left: dict[Gram, float] = {}
        pairs = [
            (words[first], words[second])
            for first, (start, end) in enumerate(pairwise(arrays["starts"]))
            for second in arrays["seconds"][start:end]
        ]
        threes = [
            (*pair, words[third])
            for pair, (start, end) in zip(pairs, pairwise(arrays["ends"]), strict=True)
            for third in arrays["thirds"][start:end]
        ]
        self._add([(word,) for word in words], *arrays["unigrams"].T)
        self._add(pairs, *arrays["bigrams"].T)
        self._add(threes, arrays["trigrams"])

    def _add(self, grams: Sequence[Gram], p: NDArray[Any], *left: NDArray[Any]) -> None:
        self.p.update(zip(grams, np.exp(p.astype(float)), strict=True))
        for shares in left:
            self.left.update(zip(grams, np.exp(shares.astype(float)), strict=True))

    def probability(self, *gram: str) -> float:
        """The probability of a word after those before it, as a reader of ARPA files finds it."""
        if gram in self.p:
            return self.p[gram]
        return self.left.get(gram[:-1], 1.0) * self.probability(*gram[1:])


def stored(texts: list[str]) -> Stored:
    return Stored(estimate(texts, LETTERS).arrays, numbered(used(texts)))


@lasting
@given(texts=texts)
def test_each_probability_and_share_is_as_defined(texts: list[str]) -> None:
    slow, found = Trigram(texts, used(texts)), stored(texts)
    assert found.p.pop((BEGIN,)) < 1e-20  # it never follows
    for gram, p in found.p.items():
        assert p == pytest.approx(slow.probability(*gram), rel=1e-4)
    for history, share in found.left.items():
        assert share == pytest.approx(slow.left(*history), rel=1e-4)
    one, two, three = slow.counts
    inner = {gram for gram in three if gram[1] != BEGIN}
    assert set(found.p) == {*one, *two, *inner, (UNKNOWN,)}


def test_pairs_and_threes_have_three_discounts_where_there_is_enough_text() -> None:
    """So the test above has seen both them and the one of little text."""
    much, little = (Trigram(one, used(one)) for one in (sentences(1, 120), sentences(1, 5)))
    assert all(len({0.75, *discounts}) == 4 for discounts in much.discounts[1:])
    assert little.discounts == [[0.75] * 3] * 3


@lasting
@given(texts=texts)
def test_what_follows_any_two_words_sums_to_one(texts: list[str]) -> None:
    slow, found = Trigram(texts, used(texts)), stored(texts)
    words = [BEGIN, *slow.words]
    for before, last in product(words, words):
        whole = sum(found.probability(before, last, word) for word in slow.words)
        assert whole == pytest.approx(1, abs=1e-5)


def test_a_word_that_is_too_rare_or_has_another_letter_is_unknown() -> None:
    texts = ["ab ab ba", "ba b", "ab é ba"]
    arrays = estimate(texts, LETTERS, seen=2).arrays
    lexicon = {"ab", "ba"}
    found, slow = Stored(arrays, numbered(lexicon)), Trigram(texts, lexicon)
    assert len(arrays["unigrams"]) == 3 + len(lexicon)
    for gram in (("ba", UNKNOWN), ("ab", UNKNOWN, "ba"), ("ba", "ab")):
        assert found.probability(*gram) == pytest.approx(slow.probability(*gram), rel=1e-4)
    assert ("ab", UNKNOWN, "ba") in found.p


def test_a_word_of_very_many_letters_is_unknown() -> None:
    found = estimate(["ab " + "a" * 40 + " " + "a" * 41], "ab")
    assert len(found.arrays["unigrams"]) == SPECIAL + 2
    assert found.unknown == pytest.approx(1 / 3)


def test_common_words_need_no_text() -> None:
    found = estimate([" \n"], "ab", common={"ab": 0.2, "b": 0.1})
    assert len(found.arrays["unigrams"]) == SPECIAL + 2
    assert found.unknown == 0


def test_a_blank_line_is_no_sentence() -> None:
    texts = sentences(2, 20)
    expected, found = (estimate(lines, LETTERS).arrays for lines in (texts, ["", *texts, " \t"]))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@lasting
@given(texts=texts)
def test_a_node_of_the_tree_has_the_words_that_begin_so(texts: list[str]) -> None:
    arrays, words = estimate(texts, LETTERS).arrays, numbered(used(texts))
    beginnings = [""]
    for node, (start, end) in enumerate(pairwise(arrays["children"])):
        spelled = beginnings[node]
        beginnings += [spelled + LETTERS[letter] for letter in arrays["letters"][start:end]]
        low, high, word = (arrays[name][node] for name in ("lows", "highs", "words"))
        assert words[low:high] == [one for one in words[3:] if one.startswith(spelled)]
        assert (words[word] if word >= 0 else None) == (spelled if spelled in words else None)
    assert Counter(beginnings) == Counter({w[:n] for w in words[3:] for n in range(len(w) + 1)})


def test_text_or_letters_without_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for texts in ([], ["", " "], ["Ä 1"]):
        with pytest.raises(ValueError, match=r"expected words of \"bac'\", got none"):
            estimate(texts, LETTERS)
    with pytest.raises(ValueError, match=r"that occur 3 times, got none"):
        estimate(["ab ca ab"], LETTERS, seen=3)
    with pytest.raises(ValueError, match="expected distinct letters, got 'aba'"):
        estimate(["ab"], "aba")
    monkeypatch.setattr(estimating, "MOST_WORDS", 2)
    with pytest.raises(ValueError, match="expected at most 2 words, got 3; ask for more occurr"):
        estimate(["a b c"], LETTERS)


@needs.espeak
def test_a_word_and_its_first_letters_have_phones() -> None:
    texts = ["the cat sat", "a cat", "cat", "the cab sat", "a thing"]
    letters = "abcghinst" + "e"
    arrays = estimate(texts, letters).arrays
    arrays |= pronunciations(arrays, letters)
    starts, said, likeliest = arrays["spoken_starts"], arrays["said"], arrays["likeliest"]
    words = sorted({w for t in texts for w in t.split()}, key=lambda w: [*map(letters.index, w)])
    spoken = {
        word: [PHONES[phone - 1] for phone in arrays["spoken"][starts[n] : starts[n + 1]]]
        for n, word in enumerate(words, SPECIAL)
    }
    assert spoken["cat"] == ["k", "æ", "t"]
    assert spoken["the"] == ["ð", "ə"]
    node = 0
    for letter, phones in zip("cat", (1, 2, 3), strict=True):
        below = range(arrays["children"][node], arrays["children"][node + 1])
        node = next(n for n in below if letters[arrays["letters"][n]] == letter)
        assert words[likeliest[node] - SPECIAL] == "cat"  # said more often than "cab"
        assert said[node] == phones
    every = {word: len(word) for word in words}
    taken = unpacked_counts(arrays["taken"], sum(every.values()))
    ends = np.cumsum([*every.values()])
    found = {word: int(one.sum()) for word, one in zip(words, np.split(taken, ends), strict=False)}
    assert found == {word: len(phones) for word, phones in spoken.items()}


def test_a_file_has_all_that_was_estimated(tmp_path: Path) -> None:
    arrays = estimate(sentences(3, 60), LETTERS).arrays
    numbers = SearchWeights(weight=0.5, bonus=0.25, leaving=-7.5, letter=-1.5)
    write(tmp_path / "lm", arrays, LETTERS, numbers)
    with safe_open(tmp_path / "lm", "numpy") as file:
        about = file.metadata()
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    expected = numbers._asdict()
    del expected["neural_share"]  # it has no neural model
    assert {name: float(about[name]) for name in expected} == expected
    assert "neural_share" not in about
    assert about["letters"] == LETTERS
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            assert found[name].dtype == np.float16
            np.testing.assert_allclose(found[name].astype(float), array, rtol=2**-11)
        else:
            assert found[name].itemsize <= 2 or (array < 0).any()
            np.testing.assert_array_equal(found[name], array)


def test_common_words_are_known_and_share_the_unigrams() -> None:
    texts = sentences(3, 60)
    common = {"cab": 3.0, "cccc": 1.0, "dad": 5.0}  # "dad" has a letter that words may not have
    before, after = (
        _unigrams(estimate(texts, LETTERS).arrays),
        _unigrams(estimate(texts, LETTERS, common=common).arrays),
    )
    share = COMMON_SHARE
    assert set(after) - set(before) == {"cccc"}
    assert after["cccc"] > share / 4
    assert sum(after.values()) <= 1 + 1e-6
    for word in set(before) - set(common):  # one more word shares what no text gives
        assert after[word] == pytest.approx((1 - share) * before[word], rel=0.05)
    assert after["cab"] == pytest.approx((1 - share) * before["cab"] + share * 3 / 4, rel=0.05)


def _unigrams(arrays: Arrays) -> dict[str, float]:
    words, _ = spelt(arrays, LETTERS)
    logs = arrays["unigrams"][SPECIAL:, 0].astype(float)
    return dict(zip(words[SPECIAL:], np.exp(logs), strict=True))


def test_common_words_are_english_and_have_the_letters_asked_for() -> None:
    found = common_words(2_000, "'abcdefghijklmnopqrstuvwxyz")
    assert found["the"] > found["water"] > 0
    assert all(word.strip("'").replace("'", "").isalpha() for word in found)
    assert set("".join(common_words(2_000, "aeh t"))) <= set("aeh t")
