"""What the hidden Markov models of phones are made of: cepstra, Gaussian mixtures, Viterbi.

Source: Rabiner 1989.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cortado.model.compiled.jit import cached_njit

Frames = NDArray[np.float32]
SILENCE = 0  # the state of silence
CEPSTRA = 13
MIN_FRAMES = 12  # of a Gaussian that is estimated anew
MIN_VARIANCE = 0.02  # of features whose variance is 1


@dataclass(frozen=True)
class Mixtures:
    """M Gaussians with diagonal covariances for each of N states."""

    weights: NDArray[np.float64]  # (N, M)
    means: NDArray[np.float64]  # (N, M, D)
    variances: NDArray[np.float64]  # (N, M, D)

    @classmethod
    def standard(cls, states: int, depth: int) -> "Mixtures":
        """Return one Gaussian of mean 0 and variance 1 for each state."""
        shape = states, 1, depth
        return cls(np.ones(shape[:2]), np.zeros(shape), np.ones(shape))

    def log_likelihoods(self, frames: Frames) -> Frames:
        """Return the log-likelihoods (T, N) of (T, D) frames in each state."""
        joint = self._components(frames)
        top = joint.max(2, keepdims=True)
        total: Frames = top[..., 0] + np.log(np.exp(joint - top).sum(2))
        return total

    def responsibilities(self, frames: Frames, state: int) -> Frames:
        """Return the probability (T, M) of each of a state's Gaussians given (T, D) frames."""
        joint = self.select(slice(state, state + 1))._components(frames)[:, 0]
        share: Frames = np.exp(joint - joint.max(1, keepdims=True))
        return share / share.sum(1, keepdims=True)

    def select(self, states: slice | NDArray[np.int64]) -> "Mixtures":
        """Return the mixtures of some states."""
        return Mixtures(*(part[states] for part in vars(self).values()))

    def split(self) -> "Mixtures":
        """Return twice as many Gaussians, each pair around one of the old means."""
        offset = 0.2 * np.sqrt(self.variances)
        means = np.stack([self.means - offset, self.means + offset], 2)
        return Mixtures(
            np.repeat(self.weights / 2, 2, axis=1),
            means.reshape(len(means), -1, means.shape[3]),
            np.repeat(self.variances, 2, axis=1),
        )

    def reestimate(self, frames: Frames, states: NDArray[np.int64]) -> None:
        """Change the mixtures by one step of expectation maximisation within each state.

        Args:
            frames: (T, D) of all utterances.
            states: (T,) of the frames; one that has fewer than MIN_FRAMES stays as it is.
        """
        order = np.argsort(states, kind="stable")
        bounds = np.searchsorted(states[order], np.arange(len(self.weights) + 1))
        for state, (start, stop) in enumerate(pairwise(bounds)):
            if stop - start < MIN_FRAMES * self.weights.shape[1]:
                continue
            own = frames[order[start:stop]]
            share = self.responsibilities(own, state)
            count = share.sum(0)[:, None] + 1e-6
            mean = share.T @ own / count
            variance = share.T @ own**2 / count - mean**2
            self.means[state] = mean
            self.variances[state] = np.maximum(variance, MIN_VARIANCE)
            self.weights[state] = np.maximum(count[:, 0] / count.sum(), 1e-4)

    def _components(self, frames: Frames) -> Frames:
        """Return the log of weight times density (T, N, M) of each Gaussian."""
        depth = self.means.shape[2]
        constant = np.log(self.weights) - 0.5 * (
            np.log(self.variances) + self.means**2 / self.variances + np.log(2 * np.pi)
        ).sum(2)
        linear = (self.means / self.variances).reshape(-1, depth).T.astype(np.float32)
        square = (-0.5 / self.variances).reshape(-1, depth).T.astype(np.float32)
        product = frames @ linear + frames**2 @ square + constant.ravel().astype(np.float32)
        joint: Frames = product.reshape(len(frames), *self.weights.shape)
        return joint


def cepstral_features(logmel: Frames) -> Frames:
    """Return (T, 3 * CEPSTRA) cepstra of (T, F) log-mel frames with first and second differences.

    Each has mean 0 and variance 1 over the utterance.
    """
    bands = logmel.shape[1]
    angles = np.pi / bands * (np.arange(bands) + 0.5)
    cepstra = logmel @ np.cos(angles[:, None] * np.arange(CEPSTRA)).astype(np.float32)
    first = np.diff(cepstra, axis=0, prepend=cepstra[:1])
    second = np.diff(first, axis=0, prepend=first[:1])
    joined = np.concatenate([cepstra, first, second], 1)
    normal: Frames = (joined - joined.mean(0)) / (joined.std(0) + 1e-3)
    return normal


def uniform_path(frames: int, states: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index (T,) in `states` of each frame if all last equally long (a flat start).

    The recording begins and ends with silence; between words there is none.
    """
    spoken = np.flatnonzero(states != SILENCE)
    path = np.concatenate([[0, 0], spoken, [len(states) - 1] * 2])
    return path[np.arange(frames) * len(path) // frames]


@cached_njit()
def viterbi(scores: Frames, states: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index (T,) in `states` of each frame on the best path.

    Silence may be skipped. With too few frames for the states, the path ends before the last ones.

    Args:
        scores: (T, N) log-likelihoods of frames in states.
        states: (L,) in their order, with silence where there may be some.
    """
    frames, count = len(scores), len(states)
    previous = np.full(count, -np.inf)
    steps = np.zeros((frames, count), np.int8)  # from the index on the path one frame earlier
    for n in range(min(2, count)):
        previous[n] = scores[0, states[n]]
    for t in range(1, frames):
        current = np.full(count, -np.inf)
        for n in range(count):
            best, step = previous[n], 0
            if n > 0 and previous[n - 1] > best:
                best, step = previous[n - 1], 1
            if n > 1 and states[n - 1] == SILENCE and previous[n - 2] > best:
                best, step = previous[n - 2], 2
            current[n] = best + scores[t, states[n]]
            steps[t, n] = step
        previous = current
    index = count - 1
    while index > 0 and previous[index] == -np.inf:
        index -= 1
    if index == count - 1 and count > 1 and previous[index - 1] > previous[index]:
        index -= 1
    path = np.zeros(frames, np.int64)
    for t in range(frames - 1, -1, -1):
        path[t] = index
        index -= steps[t, index]
    return path


def best_path(
    mixtures: Mixtures, features: Frames, states: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the index (T,) in `states` of each frame; None if the frames are too few."""
    needed, numbers = np.unique(np.append(states, SILENCE), return_inverse=True)
    path = viterbi(mixtures.select(needed).log_likelihoods(features), numbers[:-1])
    return path if path[-1] >= len(states) - 2 else None


def train_mixtures(
    mixtures: Mixtures,
    features: Sequence[Frames],
    states: Sequence[NDArray[np.int64]],
    paths: Sequence[NDArray[np.int64] | None],
    iterations: Sequence[int],
) -> tuple[Mixtures, Sequence[NDArray[np.int64] | None]]:
    """Return trained mixtures and their paths, by Viterbi training.

    Args:
        mixtures: to begin with.
        features: (T, D) of each utterance.
        states: (L,) of each one's text, in order.
        paths: as `best_path`, to begin with; utterances without one teach nothing.
        iterations: with more and more Gaussians: each entry but the first doubles them.

    Raises: ValueError where no utterance has as many frames as its text has states.
    """
    for doubling, count in enumerate(iterations):
        if doubling:
            mixtures = mixtures.split()
        for _ in range(count):
            aligned = [(x, s[p]) for x, s, p in zip(features, states, paths, strict=True)
                       if p is not None]  # fmt: skip
            if not aligned:
                raise ValueError("expected recordings with time for their texts, got none")
            frames, of_frames = (np.concatenate(parts) for parts in zip(*aligned, strict=True))
            mixtures.reestimate(frames, of_frames)
            paths = [best_path(mixtures, x, s) for x, s in zip(features, states, strict=True)]
    return mixtures, paths
