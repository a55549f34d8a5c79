"""What is remembered of a text is what would be computed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.model.search import language_model as language
from cortado.model.search import look_ahead
from cortado.model.vocabulary import ENGLISH
from cortado.tests.model.search.words import said

SYMBOLS = len(ENGLISH)

lasting = settings(deadline=None, max_examples=30)


@lasting
@given(seed=st.integers(0, 10_000), texts=st.integers(1, 12))
def test_scores_do_not_depend_on_what_was_asked_before(seed: int, texts: int) -> None:
    random, words = np.random.default_rng(seed), said()
    nodes = random.integers(language.NOWHERE, len(words.words), texts)
    befores = random.integers(0, len(words.left1), (2, texts))
    known = look_ahead.known(words, SYMBOLS)
    for which in random.integers(0, texts, 60):
        text = int(nodes[which]), *map(int, befores[:, which])
        scores = random.normal(-5, 5, SYMBOLS).astype(np.float32)
        fresh, least = scores.copy(), np.float32(random.normal(-10, 5))
        look_ahead.weigh(words, *text, least, known, scores)
        look_ahead.weigh(words, *text, least, look_ahead.known(words, SYMBOLS), fresh)
        assert scores.tobytes() == fresh.tobytes()


def test_the_letters_and_the_space_after_a_text_have_one_probability_together() -> None:
    words = said()
    for node in range(1, min(50, len(words.words))):
        known, scores = look_ahead.known(words, SYMBOLS), np.zeros(SYMBOLS, np.float32)
        look_ahead.weigh(words, node, 3, 4, np.float32(-np.inf), known, scores)
        below = words.symbols[words.children[node] : words.children[node + 1]].tolist()
        below += [words.space] * bool(words.words[node] >= 0)
        shares = np.exp((scores[below] - words.bonus) / words.weight)
        assert abs(shares.sum() - 1) < 1e-4


def test_nothing_is_remembered_without_a_language_model() -> None:
    assert look_ahead.known(language.NONE, SYMBOLS).texts.size == 0
