"""A language model gives words the probabilities of its trigram, one letter after the other."""

from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.search.language_file import (
    read_language,
)
from cortado.model.search.language_model import (
    NOWHERE,
    ROOT,
    Language,
    after,
    followed,
    mass_below,
    placed,
)
from cortado.model.search.language_model import UNKNOWN as UNKNOWN_WORD
from cortado.model.search.look_ahead import known, weigh
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.trigram import LETTERS, WORDS, Trigram, numbered, sentences, used
from cortado.training.language.estimate import estimate
from cortado.training.language.file import SearchWeights, write

Scores = NDArray[np.float32]

VOCABULARY = Vocabulary("cb a'")  # in an order of its own
NUMBERS = SearchWeights(weight=0.5, bonus=0.25, leaving=-4.0, letter=-1.5)
EVERYTHING = np.float32(-np.inf)  # a score that none is below

lasting = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 10_000)


def save(path: Path, texts: list[str], numbers: SearchWeights = NUMBERS) -> Path:
    write(path, estimate(texts, LETTERS).arrays, LETTERS, numbers)
    return path


@cache
def made(seed: int, count: int = 60, characters: str = VOCABULARY.characters) -> Language:
    with TemporaryDirectory() as folder:
        return read_language(
            save(Path(folder) / "lm", sentences(seed, count)), Vocabulary(characters)
        )


def weighed(
    lm: Language, node: int, before: int, last: int, least: np.float32, scores: Scores
) -> Scores:
    """The scores that `weigh` makes of others, which stay as they are."""
    found = scores.copy()
    weigh(lm, node, before, last, least, known(lm, len(found)), found)
    return found


def spell(
    lm: Language, text: str, node: int = ROOT, before: int = 0, last: int = 0
) -> tuple[float, tuple[int, int, int]]:
    """What the model gives a text's symbols in logarithms, and what it knows after it."""
    nothing, gained = np.zeros(len(VOCABULARY), np.float32), 0.0
    for symbol in VOCABULARY.encode(text):
        found = weighed(lm, node, before, last, EVERYTHING, nothing)
        gained += (float(found[symbol]) - lm.bonus) / lm.weight
        node, before, last = followed(lm, node, before, last, symbol)
    return gained, (node, before, last)


@lasting
@given(seed=seeds, count=st.integers(1, 80))
def test_after_any_two_words_the_probabilities_sum_to_one(seed: int, count: int) -> None:
    lm = made(seed, count)
    words = len(lm.left1)
    for before, last in product(range(words), range(words)):
        a = after(lm, before, last)
        places = [placed(lm, word, a.start, a.end) for word in range(words + 1)]
        sums = np.array([mass_below(lm, a, word, place) for word, place in enumerate(places)])
        assert sums[0] == 0
        assert (np.diff(sums) > 0).all()
        assert sums[-1] == pytest.approx(1, abs=4e-3)  # 16 bits


@lasting
@given(seed=seeds, count=st.sampled_from([3, 30, 150]))
def test_the_letters_of_a_word_have_its_probability_together(seed: int, count: int) -> None:
    texts = sentences(seed, count)
    lm, slow = made(seed, count), Trigram(texts, used(texts))
    words = numbered(used(texts))
    for before, last in product(range(len(words)), range(2, len(words))):
        for word in words[3:]:
            gained, _ = spell(lm, f"{word} ", ROOT, before, last)
            wanted = slow.probability(words[before], words[last], word)
            assert gained == pytest.approx(np.log(wanted), abs=0.012)  # 16 bits


def test_a_text_is_weighed_from_its_first_word_on() -> None:
    texts = sentences(5, 100)
    slow, said = Trigram(texts, used(texts)), "ba bac a"
    words = ["<s>", "<s>", *said.split()]
    wanted = sum(np.log(slow.probability(*words[n : n + 3])) for n in range(3))
    assert spell(made(5, 100), f"{said} ")[0] == pytest.approx(wanted, abs=0.03)


def test_a_text_moves_through_the_tree_and_its_words() -> None:
    lm, words = made(1), numbered(used(sentences(1, 60)))
    ba, bac = words.index("ba"), words.index("bac")

    def known(text: str) -> tuple[int, int, int]:
        return spell(lm, text)[1]

    node, *history = known("bac")
    assert (lm.words[node], history) == (bac, [0, 0])
    assert known("bac ") == (ROOT, 0, bac)
    assert known("bac ba ") == (ROOT, bac, ba)
    assert known("bac ba  ") == known("bac ba ")  # two spaces: no word
    assert known(" ") == known("") == (ROOT, 0, 0)
    assert known("bac bb") == known("bac bbac") == (NOWHERE, 0, bac)
    assert known("bac bbac ") == (ROOT, bac, UNKNOWN_WORD)
    assert lm.words[known("abb")[0]] == -1  # of abba
    assert known("abb ba ") == (ROOT, UNKNOWN_WORD, ba)
    inside, *_ = known("abb ba")
    assert inside == known("ba")[0]


def test_what_is_no_word_costs_what_the_file_says() -> None:
    lm = made(1)
    assert "bb" not in {word[:2] for word in WORDS}
    cost = NUMBERS.leaving + NUMBERS.letter
    b = spell(lm, "b")[0]
    assert spell(lm, "bb")[0] == pytest.approx(b + cost, abs=1e-5)
    assert spell(lm, "bbb ")[0] == pytest.approx(b + cost + NUMBERS.letter, abs=1e-5)
    abb = spell(lm, "abb")[0]
    assert spell(lm, "abb ")[0] == pytest.approx(abb + NUMBERS.leaving, abs=1e-5)
    ba, twice = spell(lm, "ba ")[0], spell(lm, "ba  ")[0]
    no_word = 2 * NUMBERS.leaving - NUMBERS.bonus / NUMBERS.weight  # and without a bonus
    assert twice == pytest.approx(ba + no_word, abs=1e-5)
    assert spell(lm, " ")[0] == pytest.approx(no_word, abs=1e-5)


@lasting
@given(seed=seeds, text=st.text("abc' ", max_size=9), share=st.floats(0, 1))
def test_what_ends_above_the_least_score_is_not_touched_by_it(
    seed: int, text: str, share: float
) -> None:
    lm = made(seed % 10)
    scores = np.random.default_rng(seed).normal(-3, 2, len(VOCABULARY)).astype(np.float32)
    _, (node, before, last) = spell(lm, text)
    wanted = weighed(lm, node, before, last, EVERYTHING, scores)
    least = np.float32(np.quantile(wanted, share))
    found = weighed(lm, node, before, last, least, scores)
    assert np.array_equal(found > least, wanted > least)
    assert np.array_equal(found[found > least], wanted[wanted > least])


def test_a_word_that_the_recogniser_cannot_spell_is_left_out_of_the_tree() -> None:
    lm, whole = made(1, characters=" ba"), made(1)
    symbols = {name: symbol for symbol, name in enumerate(" ba")}

    def known(text: str) -> tuple[int, int, int]:
        node, before, last = ROOT, 0, 0
        for letter in text:
            found = weighed(lm, node, before, last, EVERYTHING, np.zeros(3, np.float32))
            assert np.isfinite(found).all()
            node, before, last = followed(lm, node, before, last, symbols[letter])
        return node, before, last

    assert (lm.symbols == -1).sum() == (whole.symbols < 0).sum() + sum(
        VOCABULARY.names[symbol] in "c'" for symbol in whole.symbols if symbol >= 0
    )
    assert known("ab b ") == spell(whole, "ab b ")[1]
    assert known("bab ") == (ROOT, 0, UNKNOWN_WORD)
    shared = weighed(lm, ROOT, 0, 0, EVERYTHING, np.zeros(3, np.float32))
    wanted = weighed(whole, ROOT, 0, 0, EVERYTHING, np.zeros(len(VOCABULARY), np.float32))
    for letter in "ba":  # what it may spell is as likely as to others
        assert shared[symbols[letter]] == wanted[VOCABULARY.encode(letter)[0]]


def test_a_letter_that_no_word_has_leaves_the_tree() -> None:
    more = Vocabulary("cb a'zé")
    lm = made(1, characters=more.characters)
    found = weighed(lm, ROOT, 0, 0, EVERYTHING, np.zeros(len(more), np.float32))
    cost = NUMBERS.weight * (NUMBERS.leaving + NUMBERS.letter) + NUMBERS.bonus
    assert found[-2:].tolist() == pytest.approx([cost] * 2)
    fewer = weighed(made(1), ROOT, 0, 0, EVERYTHING, np.zeros(len(VOCABULARY), np.float32))
    assert np.array_equal(found[:-2], fewer)
    assert followed(lm, ROOT, 0, 5, len(more) - 1) == (NOWHERE, 0, 5)
