"""The best path through the states of a text is the best of all."""

import itertools

import numpy as np
import pytest

from cortado.training.alignment.hmm import CEPSTRA, Mixtures, train_mixtures, viterbi


def test_viterbi_finds_the_best_of_all_paths() -> None:
    rng = np.random.default_rng(0)
    states = np.array([0, 1, 2, 0, 2, 1, 0])
    for frames in (4, 6, 8):
        scores = rng.normal(size=(frames, 3)).astype(np.float32)
        best = -np.inf
        for steps in itertools.product((0, 1, 2), repeat=frames):
            places = np.cumsum(steps)
            skips = [at - 1 for at, step in zip(places, steps, strict=True) if step == 2]
            first = steps[0] < 2
            if not first or places[-1] >= len(states) or any(states[at] for at in skips):
                continue
            if places[-1] < len(states) - 2:
                continue
            best = max(best, float(scores[np.arange(frames), states[places]].sum()))
        path = viterbi(scores, states)
        assert np.isclose(scores[np.arange(frames), states[path]].sum(), best)


def test_recordings_without_time_for_their_texts_are_refused() -> None:
    features = np.zeros((5, 3 * CEPSTRA), np.float32)
    begin = Mixtures.standard(9, 3 * CEPSTRA)
    with pytest.raises(ValueError, match="expected recordings with time for their texts, got none"):
        train_mixtures(begin, [features], [np.arange(9)], [None], [1])
