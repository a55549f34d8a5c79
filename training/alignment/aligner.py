"""Word times in a recording, by a hidden Markov model of letters trained on the corpus itself.

A streaming recogniser writes a letter some 0.3 s after it was said: too late to cut words by. The
model with which classical recognisers begin is not. It has a state for each letter and one for
silence, with a mixture of Gaussians each, and is trained from a uniform division by Viterbi's
algorithm (Rabiner 1989), in seconds an hour of speech.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

Frames = NDArray[np.float32]
SILENCE = 0  # its state; letters follow
CEPSTRA = 13
LEAST_FRAMES = 50  # a Gaussian's: a state that has fewer stays as it is
LEAST_VARIANCE = 0.05  # of features whose variance is 1
ROUNDS = (5, 3, 3, 2)  # of learning and aligning with 1, 2, 4 and 8 Gaussians a state


@dataclass(frozen=True)
class Mixtures:
    """Gaussians with diagonal covariances, M for each state."""

    weights: NDArray[np.float64]  # (N, M)
    means: NDArray[np.float64]  # (N, M, D)
    variances: NDArray[np.float64]  # (N, M, D)

    def scores(self, frames: Frames) -> Frames:
        """Return the log likelihoods (T, N) of (T, D) frames."""
        joint = self._joint(frames)
        top = joint.max(2, keepdims=True)
        scores: Frames = top[..., 0] + np.log(np.exp(joint - top).sum(2))
        return scores

    def shares(self, frames: Frames, state: int) -> Frames:
        """Return the probability (T, M) of each of a state's Gaussians given (T, D) frames."""
        one = Mixtures(*(part[state : state + 1] for part in vars(self).values()))
        joint = one._joint(frames)[:, 0]
        share: Frames = np.exp(joint - joint.max(1, keepdims=True))
        return share / share.sum(1, keepdims=True)

    def split(self) -> "Mixtures":
        """Return twice as many Gaussians, to both sides of the old ones."""
        away = 0.2 * np.sqrt(self.variances)
        means = np.stack([self.means - away, self.means + away], 2)
        return Mixtures(
            np.repeat(self.weights / 2, 2, axis=1),
            means.reshape(len(means), -1, means.shape[3]),
            np.repeat(self.variances, 2, axis=1),
        )

    def _joint(self, frames: Frames) -> Frames:
        """Return the log likelihoods (T, N, M) of Gaussian and frame together."""
        depth = self.means.shape[2]
        constant = np.log(self.weights) - 0.5 * (
            np.log(self.variances) + self.means**2 / self.variances + np.log(2 * np.pi)
        ).sum(2)
        linear = (self.means / self.variances).reshape(-1, depth).T.astype(np.float32)
        square = (-0.5 / self.variances).reshape(-1, depth).T.astype(np.float32)
        product = frames @ linear + frames**2 @ square + constant.ravel().astype(np.float32)
        joint: Frames = product.reshape(len(frames), *self.weights.shape)
        return joint


class Aligner:
    """Finds the words of utterances like those that it was trained on."""

    def __init__(self, utterances: Sequence[tuple[Frames, str]]) -> None:
        """Learn from (T, F) log-mel frames and their texts, with more and more Gaussians."""
        letters = sorted({one for _, text in utterances for one in text if one.isalpha()})
        self._state = {letter: number for number, letter in enumerate(letters, SILENCE + 1)}
        heard = [features(logmel) for logmel, _ in utterances]
        states = [self._states(text)[0] for _, text in utterances]
        shape = (len(letters) + 1, 1, 3 * CEPSTRA)
        self._mixtures = Mixtures(np.ones(shape[:2]), np.zeros(shape), np.ones(shape))
        places = [divided(len(x), s) for x, s in zip(heard, states, strict=True)]
        frames = np.concatenate(heard)
        for doubling, rounds in enumerate(ROUNDS):
            if doubling:
                self._mixtures = self._mixtures.split()
            for _ in range(rounds):
                said = [s[p] for p, s in zip(places, states, strict=True)]
                self._learn(frames, np.concatenate(said))
                places = [self._align(x, s) for x, s in zip(heard, states, strict=True)]

    def words(self, logmel: Frames, text: str) -> NDArray[np.int64] | None:
        """Return the first frame of each word and the one after its last: (W, 2).

        None where there is no word, or more letters than frames, or one that is not known.

        Args:
            logmel: (T, F).
            text: that is said.
        """
        if not set(text) - set(self._state) <= set(" '"):
            return None
        states, words = self._states(text)
        path = self._align(features(logmel), states)
        if len(states) < 2 or path[-1] < len(states) - 2:
            return None
        spans = [np.flatnonzero(words[path] == word) for word in range(len(text.split()))]
        return np.array([[span[0], span[-1] + 1] for span in spans])

    def _states(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the states (L,) of a text, and the word (L,) of each, -1 on silence.

        Silence, which may be passed over, stands before, between and behind the words.
        """
        states, words = [SILENCE], [-1]
        for number, word in enumerate(text.split()):
            letters = [self._state[one] for one in word if one.isalpha()]
            states += [*letters, SILENCE]
            words += [number] * len(letters) + [-1]
        return np.array(states), np.array(words)

    def _align(self, heard: Frames, states: NDArray[np.int64]) -> NDArray[np.int64]:
        return viterbi(self._mixtures.scores(heard), states)

    def _learn(self, frames: Frames, said: NDArray[np.int64]) -> None:
        """Take one step of expectation maximisation within each state's frames.

        Args:
            frames: (T, D) of all utterances.
            said: (T,) the state of each.
        """
        now = self._mixtures
        for state in range(len(now.weights)):
            heard = frames[said == state]
            if len(heard) < LEAST_FRAMES * now.weights.shape[1]:
                continue
            share = now.shares(heard, state)
            count = share.sum(0)[:, None] + 1e-6
            mean = share.T @ heard / count
            variance = share.T @ heard**2 / count - mean**2
            now.means[state] = mean
            now.variances[state] = np.maximum(variance, LEAST_VARIANCE)
            now.weights[state] = np.maximum(count[:, 0] / count.sum(), 1e-4)


def features(logmel: Frames) -> Frames:
    """Return (T, 3 * CEPSTRA) cepstra of (T, F) log-mel frames, and their first two differences.

    Each is of mean 0 and variance 1 over the utterance.
    """
    bands = logmel.shape[1]
    angles = np.pi / bands * (np.arange(bands) + 0.5)
    cepstra = logmel @ np.cos(angles[:, None] * np.arange(CEPSTRA)).astype(np.float32)
    first = np.diff(cepstra, axis=0, prepend=cepstra[:1])
    second = np.diff(first, axis=0, prepend=first[:1])
    joined = np.concatenate([cepstra, first, second], 1)
    normal: Frames = (joined - joined.mean(0)) / (joined.std(0) + 1e-3)
    return normal


def divided(frames: int, states: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place (T,) in `states` of each frame if letters last as long as each other.

    The ends are silence.
    """
    letters = np.flatnonzero(states != SILENCE)
    places = np.concatenate([[0, 0], letters, [len(states) - 1] * 2])
    return places[np.arange(frames) * len(places) // frames]


@numba.njit(cache=True, nogil=True)
def viterbi(scores: Frames, states: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place (T,) in `states` of each frame on the best path.

    Where the frames are too few for the states, the last ones are never reached.

    Args:
        scores: (T, N) log likelihoods of frames in states.
        states: (L,) that follow each other, silence where it is wanted.
    """
    frames, count = len(scores), len(states)
    before = np.full(count, -np.inf)
    came = np.zeros((frames, count), np.int8)
    for n in range(min(2, count)):
        before[n] = scores[0, states[n]]
    for t in range(1, frames):
        now = np.full(count, -np.inf)
        for n in range(count):
            best, back = before[n], 0
            if n > 0 and before[n - 1] > best:
                best, back = before[n - 1], 1
            if n > 1 and states[n - 1] == SILENCE and before[n - 2] > best:
                best, back = before[n - 2], 2
            now[n] = best + scores[t, states[n]]
            came[t, n] = back
        before = now
    at = count - 1
    while at > 0 and before[at] == -np.inf:
        at -= 1
    if at == count - 1 and count > 1 and before[at - 1] > before[at]:
        at -= 1
    path = np.zeros(frames, np.int64)
    for t in range(frames - 1, -1, -1):
        path[t] = at
        at -= came[t, at]
    return path
