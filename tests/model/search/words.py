"""A language model that has much to say in what an untrained recogniser writes."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cortado.model.search import language_model as language
from cortado.model.search.language_model import Language
from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests.training.trigram import sentences
from cortado.training.language_model import Numbers as Weights
from cortado.training.language_model import estimate, write

WEIGHTS = Weights(weight=1.5, bonus=8.0, leaving=-20.0, letter=-8.0)


def spoken(characters: str, texts: list[str], numbers: Weights) -> Language:
    """Return a language model of texts for a recogniser of characters."""
    letters = characters.replace(" ", "")
    with TemporaryDirectory() as folder:
        write(Path(folder) / "lm", estimate(texts, letters), letters, numbers)
        return language.read(Path(folder) / "lm", Vocabulary(characters))


@cache
def said(seed: int = 2, weight: float = WEIGHTS.weight) -> Language:
    """Return a language model of words that nobody says."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 4, 300)
    words = ["".join(random.choice([*ENGLISH[1:]], length)) for length in lengths]
    return spoken(ENGLISH, sentences(seed, 400, words), WEIGHTS._replace(weight=weight))
