"""A neural language model learns what a trigram cannot know, and needs no normalisation."""

from pathlib import Path

import numpy as np
import pytest

from cortado.model.progress import unwatched
from cortado.model.search import neural_language_model as neural
from cortado.model.search.language_file import read_language
from cortado.model.search.language_model import Language
from cortado.model.vocabulary import Vocabulary
from cortado.training.language import neural as training
from cortado.training.language.estimate import estimate
from cortado.training.language.file import SearchWeights, write
from cortado.training.language.lexicon import spelt
from cortado.training.language.neural import Sizes, train

LETTERS = "abcdefghij"
FRAMES = {"a": "b", "c": "d", "e": "f"}  # a sentence's first word decides its last
SMALL = Sizes(rows=40, vector=16, units=32, history=5)


def texts(count: int = 3_000) -> list[str]:
    random = np.random.default_rng(0)
    firsts = random.choice([*FRAMES], count)
    middles = random.choice(["g", "h", "i"], (count, 3))
    return [
        " ".join([first, *row, FRAMES[first]])
        for first, row in zip(firsts, middles.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Language, list[str], float]:
    path = tmp_path_factory.mktemp("neural") / "lm"
    arrays = estimate(texts(), LETTERS).arrays
    with pytest.MonkeyPatch.context() as patch:  # more updates of few words
        patch.setattr(training, "BATCH", 128)
        patch.setattr(training, "DRAWN", 64)
        found = train(texts(), arrays, LETTERS, 6, unwatched, SMALL)
    write(path, arrays | found.arrays, LETTERS, SearchWeights(neural_share=0.5))
    return (
        read_language(path, Vocabulary(LETTERS + " ")),
        spelt(arrays, LETTERS)[0],
        found.perplexity,
    )


def probabilities(learnt: tuple[Language, list[str], float], history: str) -> dict[str, float]:
    """Those of all words by the neural model alone."""
    lm, words, _ = learnt
    last, before, *earlier = [words.index(one) if one else 0 for one in history.split(",")][::-1]
    memory = neural.histories(lm.neural)
    asked = np.array(earlier, np.int32), before, last
    gains = {
        word: neural.gain(lm.neural, memory, *asked, number, np.float32(-30))
        for number, word in enumerate(words)
        if word
    }
    share = lm.neural.share
    return {
        word: (np.exp(float(gain)) - (1 - share)) / share * np.exp(-30)
        for word, gain in gains.items()
    }


def test_it_remembers_the_word_four_before(learnt: tuple[Language, list[str], float]) -> None:
    for first, wanted in FRAMES.items():
        found = probabilities(learnt, f",{first},g,h,i")
        assert found[wanted] > 0.75  # by the trigram each of the three has a third
        assert max(found, key=lambda word: found[word]) == wanted


def test_its_probabilities_sum_to_one_nearly(learnt: tuple[Language, list[str], float]) -> None:
    for history in (",a,g,h,i", ",,,,a", ",,c,i,g"):
        assert sum(probabilities(learnt, history).values()) == pytest.approx(1, abs=0.2)


def test_its_perplexity_is_that_of_the_text(learnt: tuple[Language, list[str], float]) -> None:
    choices = np.exp(np.log(3) * 4 / 6)  # four words of three, one known, the end
    assert learnt[2] == pytest.approx(choices, rel=0.05)


def test_rare_words_share_a_row() -> None:
    arrays = estimate(["a a a b b c d e", "f g"], LETTERS).arrays
    found = train(["a b c"], arrays, LETTERS, 1, unwatched, SMALL._replace(rows=5)).arrays
    words = spelt(arrays, LETTERS)[0]
    rows = {word: int(row) for word, row in zip(words, found["neural_rows"], strict=True) if word}
    assert (rows["a"], rows["b"]) == (3, 4)
    assert {rows[word] for word in "cdefg"} == {2}
    assert found["neural_vectors"].shape == (5, SMALL.vector)


def test_the_same_text_makes_the_same_model(tmp_path: Path) -> None:
    arrays = estimate(texts(200), LETTERS).arrays
    first, second = (train(texts(200), arrays, LETTERS, 2, unwatched, SMALL) for _ in range(2))
    assert first.perplexity == second.perplexity
    for name, part in first.arrays.items():
        assert np.array_equal(part, second.arrays[name])


def test_a_text_without_words_is_refused() -> None:
    arrays = estimate(["a b"], LETTERS).arrays
    with pytest.raises(ValueError, match="expected a text with words"):
        train(["", " "], arrays, LETTERS, 1, unwatched, SMALL)
