"""Where the phones of a text are said: hidden Markov models of phones in context.

What classical recognisers begin with: three states a phone, those of phones in like contexts tied
(`training.tying`), a mixture of Gaussians each, trained by Viterbi's algorithm from phones without
context on. Contexts end at words. Such an aligner looks at what follows, too, and waits for
nothing, so it tells when something was said; a recogniser's own alignment tells when it knew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from cortado.training.alignment.aligner import SILENCE, Frames, Mixtures, divided, features, viterbi
from cortado.training.alignment.tying import EDGE, STATES, tied
from cortado.training.data.pronounce import PHONES, Lexicon

Array = NDArray[Any]

LEAST_VARIANCE = 0.02  # of features whose variance is 1
LEAST_FRAMES = 12  # a Gaussian's
ALONE = (6, 3, 3)  # rounds of learning and aligning with 1, 2, 4 Gaussians a state, no context
TOGETHER = (2, 2, 2, 2)  # the same with 1, 2, 4, 8, of tied states


class Said(NamedTuple):
    """The phones of a text in order; silence, which may be passed over, is around each word."""

    phones: Array  # (L,) places in PHONES, EDGE for silence
    left: Array  # (L,) the phone before in the same word, EDGE for none
    right: Array  # (L,) the phone behind, EDGE for none
    word: Array  # (L,) of the text, -1 for silence


class Phone(NamedTuple):
    """Where a phone is said."""

    phone: int  # its place in PHONES
    word: int  # of the text
    start: int  # its first frame, of 10 ms
    stop: int  # the one after its last


@dataclass(frozen=True)
class Sizes:
    """How much an aligner has."""

    states: int = 1500  # tied ones
    least: int = 120  # frames of one that comes of a division


def said(text: str, lexicon: Lexicon) -> Said | None:
    """Return the phones of a text; None where a word has no pronunciation, or there is none."""
    words = [lexicon.words.get(word, ()) for word in text.split()]
    if not words or not all(words):
        return None
    rows = [(EDGE, EDGE, EDGE, -1)]
    for number, word in enumerate(words):
        around = [EDGE, *word, EDGE]
        rows += [(p, around[k], around[k + 2], number) for k, p in enumerate(word)]
        rows.append((EDGE, EDGE, EDGE, -1))
    return Said(*np.array(rows).T)


class Triphones:
    """Tied states, a mixture each; finds the phones of utterances like those it learnt from."""

    def __init__(self, table: Array, mixtures: Mixtures) -> None:
        self.table, self.mixtures = table, mixtures

    @property
    def states(self) -> int:
        """How many there are, silence (0) included."""
        return len(self.mixtures.weights)

    def places(self, phones: Said) -> tuple[Array, Array]:
        """Return the states (N,) of phones in context, and of which phone each is."""
        return _expanded(phones, self.table[phones.left, phones.phones % EDGE, phones.right])

    def path(self, logmel: Frames, phones: Said) -> Array | None:
        """Return the place (T,) of each frame among `places`; None if the frames are too few."""
        return _path(self.mixtures, features(logmel), self.places(phones)[0])

    def aligned(self, logmel: Frames, phones: Said) -> list[Phone] | None:
        """Return where the phones of (T, F) log-mel frames are said; None if there is no room."""
        path = self.path(logmel, phones)
        if path is None:
            return None
        at = self.places(phones)[1][path]  # (T,) of the phones
        heard = np.flatnonzero(phones.phones != EDGE)
        first = np.searchsorted(at, heard)
        last = np.searchsorted(at, heard, "right")
        rows = zip(phones.phones[heard], phones.word[heard], first, last, strict=True)
        return [Phone(*map(int, row)) for row in rows]

    def targets(self, logmel: Frames, phones: Said) -> Array | None:
        """Return the tied state (T,) of each frame, which an encoder may learn to tell."""
        path = self.path(logmel, phones)
        return None if path is None else self.places(phones)[0][path]

    def save(self, path: Path) -> None:
        """Write it to a file."""
        arrays = {name: value.astype(np.float32) for name, value in vars(self.mixtures).items()}
        save_file({"table": self.table} | arrays, path, {"phones": " ".join(PHONES)})

    @classmethod
    def load(cls, path: Path) -> "Triphones":
        """Return the one in a file."""
        arrays = load_file(path)
        parts = (arrays[name] for name in ("weights", "means", "variances"))
        return cls(arrays["table"], Mixtures(*parts))


def learnt(utterances: Sequence[tuple[Frames, Said]], sizes: Sizes | None = None) -> Triphones:
    """Return an aligner that has learnt from (T, F) log-mel frames and their phones."""
    sizes = sizes or Sizes()
    heard = [features(logmel) for logmel, _ in utterances]
    every = np.concatenate(heard)
    alone = 1 + np.arange(EDGE * STATES, dtype=np.int32).reshape(1, EDGE, 1, STATES)
    table = np.broadcast_to(alone, (EDGE + 1, EDGE, EDGE + 1, STATES)).copy()
    first = Triphones(table, _one(1 + EDGE * STATES, every.shape[1]))
    rows = [first.places(phones)[0] for _, phones in utterances]
    begun = [divided(len(x), s) for x, s in zip(heard, rows, strict=True)]
    paths: Sequence[Array | None] = list(begun)
    first.mixtures, paths = _trained(first.mixtures, heard, rows, paths, ALONE)

    spoken = [phones for _, phones in utterances]
    contexts = [_context(first, one, path) for one, path in zip(spoken, paths, strict=True)]
    context = np.concatenate(contexts, 1)
    known = np.concatenate([x for x, p in zip(heard, paths, strict=True) if p is not None])
    loud = context[1] != EDGE
    found = tied(context[:, loud], known[loud], sizes.states, sizes.least)

    last = Triphones(found.table, _one(1 + found.states, every.shape[1]))
    rows = [last.places(phones)[0] for _, phones in utterances]
    last.mixtures, _ = _trained(last.mixtures, heard, rows, paths, TOGETHER)
    return last


def _one(states: int, depth: int) -> Mixtures:
    return Mixtures(np.ones((states, 1)), np.zeros((states, 1, depth)), np.ones((states, 1, depth)))


def _expanded(phones: Said, states: Array) -> tuple[Array, Array]:
    """Return the states of phones one after another, STATES each and one for silence."""
    counts = np.where(phones.phones == EDGE, 1, STATES)
    of = np.repeat(np.arange(len(counts)), counts)
    which = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.where(phones.phones[of] == EDGE, SILENCE, states[of, which])
    return found, of


def _context(aligner: Triphones, phones: Said, path: Array | None) -> Array:
    """Return (4, T) of each frame: the phone before, its own, that behind, which of its states."""
    if path is None:
        return np.zeros((4, 0), np.int64)
    _, of = aligner.places(phones)
    which = np.arange(len(of)) - np.searchsorted(of, of)
    at = of[path]
    return np.stack([phones.left[at], phones.phones[at], phones.right[at], which[path]])


def _path(mixtures: Mixtures, heard: Frames, states: Array) -> Array | None:
    needed, numbers = np.unique(np.append(states, SILENCE), return_inverse=True)
    some = Mixtures(*(part[needed] for part in vars(mixtures).values()))
    path = viterbi(some.scores(heard), numbers[:-1])
    return path if path[-1] >= len(states) - 2 else None


def _trained(
    mixtures: Mixtures,
    heard: Sequence[Frames],
    rows: Sequence[Array],
    paths: Sequence[Array | None],
    rounds: Sequence[int],
) -> tuple[Mixtures, Sequence[Array | None]]:
    """Return mixtures and their paths after rounds, between which each Gaussian becomes two."""
    for doubling, count in enumerate(rounds):
        if doubling:
            mixtures = mixtures.split()
        for _ in range(count):
            known = [k for k, path in enumerate(paths) if path is not None]
            states = np.concatenate([rows[k][paths[k]] for k in known])
            _learn(mixtures, np.concatenate([heard[k] for k in known]), states)
            paths = [_path(mixtures, x, s) for x, s in zip(heard, rows, strict=True)]
    return mixtures, paths


def _learn(mixtures: Mixtures, frames: Frames, states: Array) -> None:
    """Take one step of expectation maximisation within the frames of each state."""
    order = np.argsort(states, kind="stable")
    bounds = np.searchsorted(states[order], np.arange(len(mixtures.weights) + 1))
    for state, (start, stop) in enumerate(pairwise(bounds)):
        if stop - start < LEAST_FRAMES * mixtures.weights.shape[1]:
            continue
        own = frames[order[start:stop]]
        share = mixtures.shares(own, state)
        count = share.sum(0)[:, None] + 1e-6
        mean = share.T @ own / count
        mixtures.means[state] = mean
        mixtures.variances[state] = np.maximum(share.T @ own**2 / count - mean**2, LEAST_VARIANCE)
        mixtures.weights[state] = np.maximum(count[:, 0] / count.sum(), 1e-4)
