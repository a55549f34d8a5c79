"""Letters of expected phrases gain a bonus, which stays only where a whole phrase is written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.model.search import phrases
from cortado.model.search.phrases import FREE, NODES, OUTSIDE, ROOT, PhrasesError, tree
from cortado.model.vocabulary import Vocabulary

VOCABULARY = Vocabulary()
WORDS = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3)

lasting = settings(deadline=None, max_examples=200)


def gains(of: list[str], text: str) -> list[int]:
    """What each letter of a text gains."""
    built, node, found = tree(of, VOCABULARY), ROOT, []
    for symbol in VOCABULARY.encode(text):
        found.append(int(phrases.gain(built, node, symbol)))
        node = phrases.followed(built, node, symbol)
    return found


def worth(letters: str) -> int:
    return max(0, len(letters) - FREE)


def begun(of: list[str], text: str) -> str:
    """The longest end of a text, from a word's beginning on, with which a phrase begins."""
    words = [n for n in range(len(text) + 1) if n == 0 or text[n - 1] == " "]
    return next(text[n:] for n in words if any(one.startswith(text[n:]) for one in of))


@lasting
@given(of=st.lists(WORDS, min_size=1, max_size=4), said=st.lists(WORDS, max_size=4))
def test_a_letter_gains_what_the_text_has_more_of_a_phrase_behind_it(
    of: list[list[str]], said: list[list[str]]
) -> None:
    wanted = [" ".join(words) for words in of]
    longer = [a for a in wanted for b in wanted if b.startswith(a + " ")]
    wanted = [one for one in wanted if one not in longer]
    text = "".join(" ".join(words) + " " for words in said)
    for n, gained in enumerate(gains(wanted, text)):
        before, after = (
            begun(wanted, text[: n + more]) if _inside(wanted, text[: n + more]) else ""
            for more in (0, 1)
        )
        ended = before in wanted and text[n] == " "
        assert gained == worth(after) - (0 if ended else worth(before))


def _inside(of: list[str], text: str) -> bool:
    words = [n for n in range(len(text) + 1) if n == 0 or text[n - 1] == " "]
    return any(one.startswith(text[n:]) for one in of for n in words)


def test_what_a_whole_phrase_has_gained_stays_and_the_rest_is_given_back() -> None:
    assert sum(gains(["ada lovelace"], "ada lovelace ")) == worth("ada lovelace")
    assert sum(gains(["ada lovelace"], "ada lovel")) == worth("ada lovel")
    assert sum(gains(["ada lovelace"], "ada lovely ")) == 0
    assert sum(gains(["ada lovelace"], "nada lovelace ")) == 0
    assert sum(gains(["ada", "ada lovelace"], "ada lovely ")) == worth("ada")
    assert sum(gains(["cat"], "cats ")) == 0


def test_letters_are_taken_as_the_vocabulary_has_them() -> None:
    same = tree(["o'neill's co"], VOCABULARY)
    assert np.array_equal(tree(["  O'Neill's, Co. "], VOCABULARY), same)
    assert phrases.followed(same, OUTSIDE, VOCABULARY.encode(" ")[0]) == ROOT


def test_phrases_that_a_stream_cannot_have_are_refused() -> None:
    with pytest.raises(PhrasesError, match=r"expected a phrase with letters .*, got '42'"):
        tree(["42"], VOCABULARY)
    every = ["".join("ab"[n >> k & 1] for k in range(9)) for n in range(400)]
    with pytest.raises(PhrasesError, match=rf"at most {NODES - 1} letters and spaces.*, got 910"):
        tree(every, VOCABULARY)
    with pytest.raises(PhrasesError, match="vocabulary that has no space"):
        tree(["a"], Vocabulary("ab"))
