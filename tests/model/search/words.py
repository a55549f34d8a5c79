"""A language model that has much to say in what an untrained recogniser writes."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from cortado.model.search.language_file import read_language
from cortado.model.search.language_model import Language
from cortado.model.search.neural_language_model import Neural
from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests.training.trigram import sentences
from cortado.training.language.estimate import estimate
from cortado.training.language.file import SearchWeights, write

PHONES = 5  # of the words, silence included
WEIGHTS = SearchWeights(weight=1.5, bonus=8.0, leaving=-20.0, letter=-8.0)


def spoken(characters: str, texts: list[str], numbers: SearchWeights) -> Language:
    """Return a language model of texts for a recogniser of characters."""
    letters = characters.replace(" ", "")
    with TemporaryDirectory() as folder:
        write(Path(folder) / "lm", estimate(texts, letters).arrays, letters, numbers)
        return read_language(Path(folder) / "lm", Vocabulary(characters))


def with_neural(language: Language, history: int, seed: int = 0) -> Language:
    """Return a language model mixed with a neural one of random numbers."""
    random, size, units = np.random.default_rng(seed), 4, 6

    def numbers(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 1, shape).astype(np.float32)

    words = len(language.left1)
    rows = random.integers(0, words // 2 + 1, words).astype(np.int32)  # some words share one
    vectors, biases = numbers(words // 2 + 1, size), numbers(words // 2 + 1) - 3
    layers = numbers(history * size, units), numbers(units), numbers(units, size), numbers(size)
    neural = Neural(0.4, rows, -abs(numbers(words)), vectors, biases, *layers)
    return language._replace(neural=neural)


@cache
def said(seed: int = 2, weight: float = WEIGHTS.weight, pronounced: bool = False) -> Language:
    """Return a language model of words that nobody says, perhaps with all that one may have.

    That is a phone for each letter, and a neural model.
    """
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 4, 300)
    words = ["".join(random.choice([*ENGLISH[1:]], length)) for length in lengths]
    found = spoken(ENGLISH, sentences(seed, 400, words), WEIGHTS._replace(weight=weight))
    return with_neural(with_phones(found), 4) if pronounced else found


def with_phones(language: Language) -> Language:
    """Return a language model each of whose words has as many phones as letters."""
    depths = np.zeros(len(language.words), np.int32)
    spoken: list[list[int]] = [[] for _ in language.left1]
    beginnings: dict[int, list[int]] = {0: []}
    for node, word in enumerate(language.words):
        for child in range(language.children[node], language.children[node + 1]):
            beginnings[child] = [*beginnings[node], 1 + int(language.symbols[child]) % (PHONES - 1)]
        depths[node] = len(beginnings[node])
        if word >= 0:
            spoken[word] = beginnings[node]
    return language._replace(
        spoken=np.array([phone for word in spoken for phone in word], np.int32),
        spoken_starts=np.cumsum([0, *map(len, spoken)]).astype(np.int32),
        likeliest=language.lows,
        said=depths,
        taken=np.ones(sum(map(len, spoken)), np.uint8),
    )
