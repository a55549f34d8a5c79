"""Word times in a recording, by a hidden Markov model of letters trained on the corpus itself.

A streaming recogniser emits a letter some 0.3 s after it was said, too late to cut words by.
The model of classical recognisers does not: one state for each letter and one for silence, each
with a mixture of Gaussians, trained from a uniform division by Viterbi's algorithm (Rabiner 1989).
This takes seconds for an hour of speech.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cortado.training.alignment.hmm import (
    CEPSTRA,
    SILENCE,
    Frames,
    Mixtures,
    best_path,
    cepstral_features,
    train_mixtures,
    uniform_path,
)

LEAST = 50, 0.05  # frames of a Gaussian, and its variance, of features whose variance is 1
ITERATIONS = (5, 3, 3, 2)  # with 1, 2, 4 and 8 Gaussians for each state


class WordAligner:
    """Finds the words of utterances like those that it was trained on."""

    def __init__(self, utterances: Sequence[tuple[Frames, str]]) -> None:
        """Train on (T, F) log-mel frames and their texts, with more and more Gaussians."""
        letters = sorted({letter for _, text in utterances for letter in text if letter.isalpha()})
        self._state = {letter: number for number, letter in enumerate(letters, SILENCE + 1)}
        features = [cepstral_features(logmel) for logmel, _ in utterances]
        states = [self._states(text)[0] for _, text in utterances]
        flat = [uniform_path(len(x), s) for x, s in zip(features, states, strict=True)]
        begin = Mixtures.standard(len(letters) + 1, 3 * CEPSTRA)
        self._mixtures, _ = train_mixtures(begin, features, states, flat, ITERATIONS, *LEAST)

    def words(self, logmel: Frames, text: str) -> NDArray[np.int64] | None:
        """Return the first frame of each word and the frame after its last one: (W, 2).

        None if the text is empty, has more letters than there are frames, a word without letters,
        or a letter that the training did not have.

        Args:
            logmel: (T, F).
            text: what is said.
        """
        if not set(text) - set(self._state) <= set(" '"):
            return None
        states, words = self._states(text)
        path = best_path(self._mixtures, cepstral_features(logmel), states)
        if len(states) < 2 or path is None:
            return None
        spans = [np.flatnonzero(words[path] == word) for word in range(len(text.split()))]
        if not all(map(len, spans)):
            return None
        return np.array([[span[0], span[-1] + 1] for span in spans])

    def _states(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the states (L,) of a text, and the word (L,) of each, -1 for silence.

        An optional silence stands before, between and after the words.
        """
        states, words = [SILENCE], [-1]
        for number, word in enumerate(text.split()):
            letters = [self._state[letter] for letter in word if letter.isalpha()]
            states += [*letters, SILENCE]
            words += [number] * len(letters) + [-1]
        return np.array(states), np.array(words)
