"""What else a word may have been: the best of the lexicon in the frames of that word."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.compiled.viterbi import IMPOSSIBLE
from cortado.model.search import language_model as language
from cortado.model.search import lexicon_search, look_ahead, pronunciation
from cortado.model.search.language_model import ROOT, Language
from cortado.model.search.lexicon_search import DELAY, MOST
from cortado.model.search.pronunciation import HISTORY, NOW, PLACES
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.search.words import PHONES, said

SPACE = Vocabulary().names.index(" ")

lasting = settings(deadline=None, max_examples=25)


@cache
def lexicon() -> Language:
    return said(pronounced=True)


def frames(seed: int) -> NDArray[np.float32]:
    """The scores (HISTORY, P) of phones at frames, oldest first."""
    random = np.random.default_rng(seed)
    found = np.zeros((HISTORY, PHONES), np.float32)
    for frame in found:
        pronunciation.relative(random.normal(0, 2, PHONES).astype(np.float32), frame)
    return found


def began(*places: int) -> NDArray[np.float32]:
    found = np.full(PLACES, IMPOSSIBLE, np.float32)
    found[list(places)] = 0
    return found


class Stream:
    """A stream whose symbols were committed one step after another."""

    def __init__(self, begun: NDArray[np.float32]) -> None:
        self.begun, self.state = begun[None].copy(), np.zeros((1, 4), np.int32)

    def follow(
        self,
        text: str,
        heard: NDArray[np.float32],
        lm: Language | None = None,
        *,
        late: int = 0,
        ends: bool = False,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        symbols = np.array([Vocabulary().encode(text)], np.int32).reshape(1, -1)
        shape = (1, len(text) + 1, MOST)
        nodes, scores = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        row, ended = np.zeros(1, np.int64), np.array([ends])
        news = symbols, np.full_like(symbols, late), ended, heard[None]
        lexicon_search.follow(row, *news, lm or lexicon(), self.begun, self.state, nodes, scores)
        return nodes[0], scores[0]


def node_of(word: int) -> int:
    return lexicon().words.tolist().index(word)


def spelt(word: int) -> str:
    node, letters = node_of(word), ""
    while node != ROOT:
        letters = Vocabulary().names[lexicon().symbols[node]] + letters
        node = int(np.searchsorted(lexicon().children, node, "right")) - 1
    return letters


def probability(before: int, last: int, word: int) -> float:
    """The word's log-probability by its letters, as the search of hypotheses has it."""
    lm, total, node = lexicon(), 0.0, ROOT
    for letter in f"{spelt(word)} ":
        scores = np.zeros(len(Vocabulary()), np.float32)
        symbol = Vocabulary().names.index(letter)
        fresh = look_ahead.known(lm, len(scores))
        look_ahead.weigh(lm, node, before, last, np.float32(-np.inf), fresh, scores)
        total += float(scores[symbol]) - lm.bonus
        node = language.followed(lm, node, before, last, symbol)[0]
    return total


@lasting
@given(seed=st.integers(0, 1000), own=st.integers(3, 100), length=st.integers(2, 9))
def test_the_alternatives_of_a_word_are_the_best_others_of_the_lexicon(
    seed: int, own: int, length: int
) -> None:
    lm, heard, begun = lexicon(), frames(seed), began(NOW - length)
    nodes, scores = Stream(np.roll(begun, 1)).follow(f"{spelt(own)} ", heard)
    assert (nodes[:-2] < 0).all()  # within the word
    words, ended = range(3, 3 + lm.known), np.zeros(HISTORY, np.float32)
    reached = np.zeros(pronunciation.REACHED, np.float32)
    wanted = []
    for word in words:
        phones = language.word_phones(lm, node_of(word))
        fit = float(pronunciation.fit(begun, heard, phones, ended, reached))
        wanted.append(probability(0, 0, word) + float(lexicon_search.PHONES) * fit)
    best = sorted((score, word) for score, word in zip(wanted, words, strict=True) if word != own)
    expected = [score for score, _ in best[: -MOST - 1 : -1]]
    found = [lm.words[node] for node in nodes[-2]]
    assert own not in found
    # the bounds know a word's phones by its likeliest continuation, so that few may be missed
    assert scores[-2][0] == pytest.approx(expected[0], abs=1e-2)
    assert scores[-2] == pytest.approx([wanted[word - 3] for word in found], abs=1e-2)


def test_a_word_ends_with_its_space_or_with_the_utterance_and_only_once() -> None:
    stream, heard, word = Stream(began(NOW - 4)), frames(1), spelt(5)
    nodes, _ = stream.follow(word, heard)
    assert (nodes < 0).all()
    nodes, _ = stream.follow(" ", heard)
    assert (nodes[0] >= 0).all()
    assert (nodes[1] < 0).all()
    assert stream.state[0, :3].tolist() == [ROOT, 0, 5]
    nodes, _ = stream.follow("", heard, ends=True)  # nothing but the space since
    assert (nodes < 0).all()
    stream.follow(word, heard)
    nodes, _ = stream.follow("", heard, ends=True)
    assert (nodes[0] >= 0).all()
    assert stream.state[0, :3].tolist() == [ROOT, 0, 0]


def test_what_is_heard_decides_which_word_is_the_likeliest() -> None:
    lm = lexicon()._replace(weight=0.01)  # else a likely word that lacks a phone may win
    firsts = set()
    for wanted in (10, 60, 140):
        phones = language.word_phones(lm, node_of(wanted))
        heard = np.full((HISTORY, PHONES), -30, np.float32)
        for n, phone in enumerate(phones):
            heard[HISTORY - len(phones) + n, phone] = 0
        stream = Stream(np.roll(began(NOW - len(phones)), 1))
        nodes, _ = stream.follow(f"{spelt(5)} ", heard, lm)
        first = language.word_phones(lm, int(nodes[-2, 0]))
        assert first.tolist() == phones.tolist()
        firsts.add(tuple(first.tolist()))
    assert len(firsts) == 3


@pytest.mark.parametrize("late", [0, HISTORY // 2])
def test_a_word_has_alternatives_as_long_as_its_frames_are_remembered(late: int) -> None:
    """Some frames pass before its first letter is committed, the others before its space is."""
    heard, most = frames(2), HISTORY - DELAY - 1 - late
    for steps, found in ((most, MOST), (most + 1, 0)):
        stream = Stream(began(NOW))
        stream.follow(spelt(5), heard, late=late)
        for _ in range(steps - 1):
            stream.follow("", heard)
        nodes, _ = stream.follow(" ", heard)
        assert (nodes[0] >= 0).sum() == found
        nodes, _ = stream.follow(f"{spelt(7)} ", heard)  # the next word is heard anew
        assert (nodes[-2] >= 0).sum() == MOST


def test_a_word_longer_than_what_is_remembered_lets_the_next_begin() -> None:
    stream = Stream(began(NOW))
    heard = np.full((HISTORY, PHONES), -30, np.float32)
    for _ in range(2 * HISTORY):
        stream.follow("", heard)
    assert stream.begun.max() == 0
