"""A neural language model's probability is what its layers say, mixed with the trigram's."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.model.search import language_model as language
from cortado.model.search import neural_language_model as neural
from cortado.model.search.language_model import Language
from cortado.model.search.neural_language_model import Histories
from cortado.tests.model.search.words import said, with_neural

HISTORY = 4

lasting = settings(deadline=None, max_examples=40)


@cache
def mixed() -> Language:
    return with_neural(said(), HISTORY)


def gain(memory: Histories, history: list[int], word: int, trigram: float) -> float:
    """What the compiled model gives a word after a history, newest first."""
    last, before, *earlier = history
    words = np.array(earlier, np.int32)
    return float(
        neural.gain(mixed().neural, memory, words, before, last, word, np.float32(trigram))
    )


words = st.integers(0, len(said().left1) - 1)


@lasting
@given(
    history=st.lists(words, min_size=HISTORY, max_size=HISTORY),
    word=words,
    trigram=st.floats(-12, -0.01),
)
def test_a_word_gains_what_the_mixture_has_above_the_trigram(
    history: list[int], word: int, trigram: float
) -> None:
    n = mixed().neural
    side_by_side = np.concatenate([n.vectors[n.rows[one]] for one in history])
    units = np.maximum(side_by_side @ n.hidden + n.hidden_biases, 0)
    output = units @ n.output + n.output_biases
    score = n.vectors[n.rows[word]] @ output + n.biases[n.rows[word]] + n.within[word]
    wanted = np.log(1 - n.share + n.share * np.exp(min(score - trigram, 30)))
    found = gain(neural.histories(n), history, word, trigram)
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)
    assert found >= np.log(1 - n.share) - 1e-3  # no word loses more than the mixture's half


@lasting
@given(seed=st.integers(0, 10_000))
def test_scores_do_not_depend_on_what_was_asked_before(seed: int) -> None:
    random = np.random.default_rng(seed)
    memory = neural.histories(mixed().neural)
    asked = random.integers(0, 6, (60, HISTORY + 1)).tolist()  # often the same
    for *history, word in asked:
        fresh = neural.histories(mixed().neural)
        assert gain(memory, history, word, -3.0) == gain(fresh, history, word, -3.0)


def test_histories_of_one_place_do_not_take_each_other_for_their_own() -> None:
    memory = neural.histories(mixed().neural)
    histories = [[a, b, 5, 7] for a in range(3, 9) for b in range(3, 9)]
    wanted = [gain(memory, history, 4, -3.0) for history in histories]
    assert len(set(wanted)) > len(wanted) / 2
    for other in ([9, 3, 5, 7], [3, 9, 5, 7], [3, 3, 9, 7], [3, 3, 5, 9]):
        memory.words[:], memory.outputs[:] = other, 100  # every place is taken
        assert [gain(memory, history, 4, -3.0) for history in histories] == wanted


def test_a_word_is_mixed_where_it_ends() -> None:
    lm = mixed()
    memory, earlier = neural.histories(lm.neural), np.array([9, 8], np.int32)
    for node in np.flatnonzero(lm.words >= 0)[:40].tolist():
        word = int(lm.words[node])
        low = language.placed.py_func(lm, word, *places(lm, 5, 6))
        high = language.placed.py_func(lm, word + 1, *places(lm, 5, 6))
        after = language.after.py_func(lm, 5, 6)
        share = language.mass_below.py_func(lm, after, word + 1, high)
        share -= language.mass_below.py_func(lm, after, word, low)
        wanted = lm.weight * gain(memory, [6, 5, 9, 8], word, float(np.log(share)))
        found = language.mixture_gain(lm, memory, node, 5, 6, earlier)
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)


def places(lm: Language, before: int, last: int) -> tuple[language.Place, language.Place]:
    found = language.after.py_func(lm, before, last)
    return found.start, found.end


def test_nothing_is_remembered_without_a_model() -> None:
    memory = neural.histories(neural.NONE)
    assert memory.words.size == memory.outputs.size == memory.units.size == 0
    assert neural.NONE.words == 0
    assert mixed().neural.words == HISTORY
