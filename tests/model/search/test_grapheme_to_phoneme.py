"""Words that a lexicon lacks are pronounced as its words are."""

from itertools import chain

import numpy as np
import pytest

from cortado.model.search.grapheme_to_phoneme import GraphemeToPhoneme
from cortado.model.search.language_model import Language
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.search.words import said, spoken, with_phones
from cortado.training.language.file import SearchWeights

VOCABULARY = Vocabulary()


def lexicon(phones: dict[str, list[list[int]]]) -> Language:
    """A lexicon of words with the phones of each letter."""
    found = spoken(VOCABULARY.characters, [*phones], SearchWeights())
    depths, ends = np.zeros(len(found.words), np.int32), dict[int, list[list[int]]]()
    names = {0: ""}
    for node in range(len(found.words)):
        depths[node] = len(names[node])
        for child in range(found.children[node], found.children[node + 1]):
            names[child] = names[node] + VOCABULARY.names[found.symbols[child]]
        if found.words[node] >= 0:
            ends[int(found.words[node])] = phones[names[node]]
    of = [[*chain(*ends.get(word, []))] for word in range(len(found.left1))]
    stops = [[0, *np.cumsum([len(one) for one in ends.get(word, [])])] for word in range(len(of))]
    likeliest = found.lows
    return found._replace(
        spoken=np.array([phone for word in of for phone in word], np.int32),
        spoken_starts=np.cumsum([0, *map(len, of)]).astype(np.int32),
        likeliest=likeliest,
        said=np.array([stops[w][d] for w, d in zip(likeliest, depths, strict=True)], np.int32),
        taken=np.array(
            [len(one) for word in range(len(of)) for one in ends.get(word, [])], np.uint8
        ),
    )


def pronounced(words: Language, word: str) -> tuple[list[int], list[int]]:
    return GraphemeToPhoneme(words).pronounce(VOCABULARY.encode(word))


def test_a_letter_has_the_phones_that_it_always_has() -> None:
    for word in ("quartz", "x", "yonderly"):
        symbols = VOCABULARY.encode(word)
        wanted = [1 + symbol % 4 for symbol in symbols]
        assert pronounced(said(pronounced=True), word) == (wanted, [*range(1, len(word) + 1)])


def test_most_letters_around_it_that_are_the_same_decide() -> None:
    cat, city, chin = [[1], [2], [3]], [[4], [5], [3], [6]], [[7], [], [5], [8]]
    words = lexicon({"cat": cat, "city": city, "chin": chin})
    assert pronounced(words, "cit") == ([4, 5, 3], [1, 2, 3])
    assert pronounced(words, "cats") == ([1, 2, 3], [1, 2, 3, 3])  # no word has an s
    assert pronounced(words, "chit") == ([7, 5, 3], [1, 1, 2, 3])


def test_a_letter_may_have_several_phones_and_the_usual_ones_win() -> None:
    words = lexicon({"ax": [[1], [2, 3]], "bx": [[4], [2, 3]], "cx": [[5], [9]]})
    assert pronounced(words, "dx") == ([2, 3], [0, 2])
    assert pronounced(words, "cx") == ([5, 9], [1, 2])


@pytest.mark.parametrize("word", ["a", "'"])
def test_short_words_are_pronounced_too(word: str) -> None:
    phones, stops = pronounced(with_phones(said()), word)
    assert len(stops) == len(word)
    assert len(phones) <= len(word)


def test_letters_that_the_vocabulary_lacks_take_phones_too() -> None:
    words = lexicon({"bax": [[1], [2], [3]], "bat": [[1], [2], [4]]})
    lacking = VOCABULARY.encode("x")[0]
    symbols = np.where(words.symbols == lacking, -1, words.symbols)
    assert pronounced(words._replace(symbols=symbols), "tab") == ([4, 2, 1], [1, 2, 3])
