"""Letters of expected phrases gain a bonus, which stays only where a whole phrase is written."""

from collections.abc import Sequence
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.search import commit, look_ahead, phrases
from cortado.model.search import language_model as language
from cortado.model.search.language_model import Language
from cortado.model.search.neural_language_model import NONE, histories
from cortado.model.search.phrases import FREE, NODES, OUTSIDE, ROOT, PhrasesError, expecting
from cortado.model.search.settings import DEFAULT_BEAM
from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests.model.search.words import said

VOCABULARY = Vocabulary()
WORDS = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3)

lasting = settings(deadline=None, max_examples=200)


def gains(of: list[str], text: str) -> list[int]:
    """What each letter of a text gains."""
    built, node, found = expecting(of, VOCABULARY).tree, ROOT, []
    for symbol in VOCABULARY.encode(text):
        found.append(int(phrases.gain(built, node, symbol)))
        node = phrases.followed(built, node, symbol)
    return found


def worth(letters: str) -> int:
    return max(0, len(letters) - FREE)


def begun(of: list[str], text: str) -> str:
    """The longest end of a text, from a word's beginning on, with which a phrase begins."""
    ends = (text[n:] for n in range(len(text) + 1) if n == 0 or text[n - 1] == " ")
    return next((end for end in ends if any(one.startswith(end) for one in of)), "")


@lasting
@given(of=st.lists(WORDS, min_size=1, max_size=4), said=st.lists(WORDS, max_size=4))
def test_a_letter_gains_what_the_text_has_more_of_a_phrase_behind_it(
    of: list[list[str]], said: list[list[str]]
) -> None:
    wanted = [" ".join(words) for words in of]
    longer = [a for a in wanted for b in wanted if a != b and f" {a} " in f" {b} "]
    wanted = [one for one in wanted if one not in longer]
    text = "".join(" ".join(words) + " " for words in said)
    for n, gained in enumerate(gains(wanted, text)):
        before, after = begun(wanted, text[:n]), begun(wanted, text[: n + 1])
        ended = [one for one in wanted if text[n] == " " and f" {before}".endswith(f" {one}")]
        kept = max(map(worth, ended), default=0)  # `ba` stays where `a baa` is left at `a ba `
        assert gained == worth(after) - (worth(before) - kept)


def test_what_a_whole_phrase_has_gained_stays_and_the_rest_is_given_back() -> None:
    assert sum(gains(["ada lovelace"], "ada lovelace ")) == worth("ada lovelace")
    assert sum(gains(["ada lovelace"], "ada lovel")) == worth("ada lovel")
    assert sum(gains(["ada lovelace"], "ada lovely ")) == 0
    assert sum(gains(["ada lovelace"], "nada lovelace ")) == 0
    assert sum(gains(["ada", "ada lovelace"], "ada lovely ")) == worth("ada")
    assert sum(gains(["cat"], "cats ")) == 0


def test_a_whole_phrase_within_the_beginning_of_another_stays() -> None:
    nested = ["san york city", "york"]
    assert sum(gains(nested, "san york is")) == worth("york")
    assert sum(gains(nested, "san yor is")) == 0
    assert sum(gains(nested, "san york city is")) == worth("san york city")
    assert sum(gains([*nested, "city"], "san york city is")) == worth("san york city")
    tree, node = expecting(nested, VOCABULARY).tree, ROOT
    for symbol in VOCABULARY.encode("san york"):
        node = phrases.followed(tree, node, symbol)
    assert phrases.unfinished(tree, node) == worth("san york") - worth("york")


@pytest.mark.parametrize(
    ("phrase", "plain"),
    [
        ("O’Brien", "o'brien"),
        ("Zoë Müller", "zoe muller"),
        ("JALAPEÑO", "jalapeno"),
        ("ﬁg", "fig"),
        ("Søren", "soren"),
    ],
)
def test_accents_and_apostrophes_that_the_vocabulary_lacks_are_spelt_without(
    phrase: str, plain: str
) -> None:
    tree, same = (expecting([one], VOCABULARY).tree for one in (phrase, plain))
    np.testing.assert_array_equal(tree, same)
    with_accents = Vocabulary(f"{ENGLISH}ë")
    one, same, other = (
        expecting([name], with_accents).tree for name in ("zoë", "zoe\u0308", "zoe")
    )
    assert (one == same).all()
    assert (one != other).any()


def test_letters_are_taken_as_the_vocabulary_has_them() -> None:
    same = expecting(["o'neill's co"], VOCABULARY).tree
    assert np.array_equal(expecting(["  O'Neill's, Co. "], VOCABULARY).tree, same)
    assert phrases.followed(same, OUTSIDE, VOCABULARY.encode(" ")[0]) == ROOT


def test_phrases_that_a_stream_cannot_have_are_refused() -> None:
    with pytest.raises(PhrasesError, match=r"expected a phrase with letters .*, got '42'"):
        expecting(["42"], VOCABULARY)
    every = ["".join("ab"[n >> k & 1] for k in range(9)) for n in range(400)]
    with pytest.raises(PhrasesError, match=rf"at most {NODES - 1} letters and spaces.*, got 910"):
        expecting(every, VOCABULARY)
    with pytest.raises(PhrasesError, match="vocabulary that has no space"):
        expecting(["a"], Vocabulary("ab"))


def letters(word: Sequence[int]) -> tuple[list[int], list[int]]:
    """A phone for each letter, but two for each a."""
    a = VOCABULARY.encode("a")[0]
    phones = [[symbol] * (1 + (symbol == a)) for symbol in word]
    return [*chain(*phones)], np.cumsum([len(each) for each in phones]).tolist()


def sounds(of: list[str], text: str) -> str:
    """The phones of the unfinished word behind a text."""
    tree, phones = expecting(of, VOCABULARY, letters)
    return VOCABULARY.decode(phrases.spoken(tree, phones, _place(tree, text)))


def test_an_unfinished_word_has_the_phones_of_its_letters() -> None:
    of = ["ada lovelace", "ad", "lovely"]
    texts = {"": "", "a": "aa", "ad": "aad", "ada": "aadaa", "ada ": "", "ada love": "love"}
    assert {text: sounds(of, text) for text in texts} == texts
    assert sounds(of, "ada lovely") == sounds(of, "lovely") == "lovely"
    assert sounds(of, "ada x") == ""


def test_of_words_that_begin_alike_the_one_that_ends_has_its_own_phones() -> None:
    def reversed_word(word: Sequence[int]) -> tuple[list[int], list[int]]:
        return [*reversed(word)], [*range(1, len(word) + 1)]

    tree, phones = expecting(["abc", "ab"], VOCABULARY, reversed_word)
    found = [phrases.spoken(tree, phones, node) for node in range(1, 4)]
    assert [VOCABULARY.decode(one) for one in found] == ["c", "ba", "cba"]


def test_phones_that_do_not_fit_are_left_out() -> None:
    of = ["a" * 100 + letter for letter in "bcdef"]  # 201 phones each, of 105 letters in all
    assert [len(sounds(of, one)) for one in of] == [201, 201, 0, 0, 0]


def test_no_more_letters_are_pronounced_than_a_start_may_cost() -> None:
    asked: list[int] = []

    def pronounce(word: Sequence[int]) -> tuple[list[int], list[int]]:
        asked.append(len(word))
        return [], [0] * len(word)

    expecting(["a" * count for count in range(1, 201)], VOCABULARY, pronounce)
    assert 1024 < sum(asked) <= 2048


def test_the_same_phrase_twice_is_pronounced_once() -> None:
    once, twice = (expecting(of, VOCABULARY, letters) for of in (["ada"], ["ada", "ada"]))
    assert all(map(np.array_equal, once, twice))


@pytest.mark.parametrize("is_weighed", [True, False])
def test_a_word_outside_the_lexicon_costs_nothing_as_far_as_a_phrase_goes(is_weighed: bool) -> None:
    lm, count = said(), len(VOCABULARY)
    known = next(two for two in TWO if (at := _node(lm, two)) > 0 and lm.words[at] < 0)
    phrase = known + "zq"
    tree = expecting([phrase, known], VOCABULARY).tree

    def gained(text: str) -> dict[str, float]:
        node, at = _node(lm, text), _place(tree, text)
        scores = np.zeros(count, np.float32)
        look_ahead.waive_leaving(lm, node, tree, at, is_weighed, scores)
        return {VOCABULARY.names[n]: float(scores[n]) for n in np.flatnonzero(scores)}

    letter, leaving = -lm.weight * lm.letter, -lm.weight * lm.leaving
    of_space = {" ": leaving} if is_weighed else {}  # what is not charged is not waived
    assert gained(known) == pytest.approx({"z": letter + leaving} | of_space)
    pays = dict.fromkeys(ENGLISH[1:], -leaving)  # what was waived, where a letter departs
    assert gained(known + "z") == pytest.approx(pays | {"q": letter, " ": -leaving})
    assert gained(phrase) == pytest.approx(pays)
    assert gained("zz") == {}


def test_a_space_is_no_likelier_for_being_less_likely() -> None:
    lm, count = said(), len(VOCABULARY)
    word = next(two for two in TWO if (at := _node(lm, two)) > 0 and lm.words[at] < 0)
    tree, node = expecting([word], VOCABULARY).tree, _node(lm, word)
    least, found = np.float32(-8), []
    for score in np.linspace(20, -60, 161, dtype=np.float32):
        scores = np.full(count, score)
        is_weighed = bool(score >= least - np.float32(lm.bonus))
        look_ahead.weigh(lm, node, 0, 0, least, look_ahead.known(lm, count), scores)
        look_ahead.waive_leaving(lm, node, tree, _place(tree, word), is_weighed, scores)
        found.append(scores[lm.space])
    assert (np.diff(found) <= 0).all()


def test_a_text_that_ends_within_a_phrase_gives_back_what_it_gained() -> None:
    lm, of = said(), ["abc de", "fgh", "zqzq"]
    tree, beam = expecting(of, VOCABULARY).tree, DEFAULT_BEAM._replace(words=lm, expected=0.9)

    def ended(text: str, phrase: int) -> float:
        state = np.array([[[_node(lm, text), 0, 0]]], np.int32)
        h = SimpleNamespace(words=state, phrase=np.array([[phrase]]), trees=tree[None])
        return float(commit._ended.py_func(h, 0, 0, beam, histories(NONE)))

    def alone(text: str) -> float:
        h = SimpleNamespace(phrase=np.array([[_place(tree, text)]]), trees=tree[None])
        without = beam._replace(words=language.NONE)
        return float(commit._ended.py_func(h, 0, 0, without, histories(NONE)))

    def lent(text: str) -> float:
        last = text.rpartition(" ")[2]
        return ended(last, OUTSIDE) - ended(last, _place(tree, text))

    paid = -lm.weight * lm.leaving  # where the word is none of the lexicon's, nor one's beginning
    for text, letters in {"ab": 1, "abc d": 4, "zqz": 2}.items():
        outside = _node(lm, text.rpartition(" ")[2]) == language.NOWHERE
        assert lent(text) == pytest.approx(0.9 * letters + outside * paid)
    assert lent("fgh") == pytest.approx(ended("fgh", OUTSIDE))  # a whole one
    assert lent("zqzq") == 0
    without_words = [alone(text) for text in ("ab", "abc d", "fgh")]
    assert without_words == pytest.approx([-0.9, -0.9 * 4, 0])


TWO = [a + b for a in ENGLISH[2:] for b in ENGLISH[2:]]


def _node(lm: Language, text: str) -> int:
    node = language.ROOT
    for symbol in VOCABULARY.encode(text):
        node = language.followed(lm, node, 0, 0, symbol)[0]
    return node


def _place(tree: NDArray[np.int16], text: str) -> int:
    node = ROOT
    for symbol in VOCABULARY.encode(text):
        node = phrases.followed(tree, node, symbol)
    return node
