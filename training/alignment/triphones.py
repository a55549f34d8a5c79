"""Where the phones of a text are said: hidden Markov models of phones in context.

As in classical recognisers, a phone has three states. States of phones in similar contexts are tied
(`tying.py`). Each has a mixture of Gaussians, trained by Viterbi's algorithm, at first without
context. Contexts end at words. Such an aligner sees what follows, so it says when a phone was said;
a streaming recogniser's own alignment says when it was recognised.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from cortado.model.arrays import Array
from cortado.model.whole_file import write_whole
from cortado.training.alignment.hmm import (
    SILENCE,
    Frames,
    Mixtures,
    best_path,
    cepstral_features,
    train_mixtures,
    uniform_path,
)
from cortado.training.alignment.tying import EDGE, STATES, tie_states
from cortado.training.data.pronounce import PHONES, Lexicon

MONOPHONE_ITERATIONS = (6, 3, 3)  # without context, with 1, 2, 4 Gaussians for each state
OWN_PHONES = " ".join(PHONES)  # as a file names those that it was trained on
PARTS = "table", "weights", "means", "variances"
CONTEXTS = EDGE + 1, EDGE, EDGE + 1, STATES  # of the table: left, own and right phone, which state
TRIPHONE_ITERATIONS = (2, 2, 2, 2)  # with 1, 2, 4, 8 Gaussians for each tied state


class PhoneSequence(NamedTuple):
    """The L phones of a text in order, with an optional silence around each word."""

    phones: Array  # (L,) indices into PHONES, EDGE for silence
    left: Array  # (L,) the phone before in the same word, EDGE for none
    right: Array  # (L,) the phone after in the same word, EDGE for none
    word: Array  # (L,) index in the text, -1 for silence


class PhoneSpan(NamedTuple):
    """Where a phone is said."""

    phone: int  # index into PHONES
    word: int  # index in the text
    start: int  # first frame, of 10 ms
    stop: int  # the frame after the last one


def phone_sequence(text: str, lexicon: Lexicon) -> PhoneSequence | None:
    """Return the phones of a text; None if it is empty or a word has no pronunciation."""
    words = [lexicon.get(word, ()) for word in text.split()]
    if not words or not all(words):
        return None
    silence = EDGE, EDGE, EDGE, -1
    rows = [silence]
    for number, word in enumerate(words):
        padded = [EDGE, *word, EDGE]
        rows += [(phone, padded[k], padded[k + 2], number) for k, phone in enumerate(word)]
        rows.append(silence)
    return PhoneSequence(*np.array(rows).T)


class TriphoneAligner:
    """Finds the phones of utterances like those that it was trained on."""

    def __init__(self, table: Array, mixtures: Mixtures) -> None:
        """Take the states' numbers by context, as of `tie_states`, and their mixtures."""
        self.table, self.mixtures = table, mixtures

    @property
    def states(self) -> int:
        """The number of states, silence (0) included."""
        return len(self.mixtures.weights)

    @property
    def phones(self) -> Array:
        """The phone (S,) of each state: 0 for silence, 1 + its place in PHONES."""
        found = np.zeros(self.states, np.int64)
        for phone in range(EDGE):
            found[self.table[:, phone]] = 1 + phone
        return found

    def expand(self, phones: PhoneSequence) -> tuple[Array, Array]:
        """Return the states (N,) of phones in context, and the index (N,) of each one's phone."""
        states = self.table[phones.left, phones.phones % EDGE, phones.right]
        counts = np.where(phones.phones == EDGE, 1, STATES)
        index = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.where(phones.phones[index] == EDGE, SILENCE, states[index, nth]), index

    def spans(self, logmel: Frames, phones: PhoneSequence) -> list[PhoneSpan] | None:
        """Return where phones are said in (T, F) log-mel frames; None if those are too few."""
        states, index = self.expand(phones)
        path = best_path(self.mixtures, cepstral_features(logmel), states)
        if path is None:
            return None
        of_frames = index[path]  # (T,)
        spoken = np.flatnonzero(phones.phones != EDGE)
        starts = np.searchsorted(of_frames, spoken)
        stops = np.searchsorted(of_frames, spoken, "right")
        rows = zip(phones.phones[spoken], phones.word[spoken], starts, stops, strict=True)
        return [PhoneSpan(*map(int, row)) for row in rows]

    def frame_states(self, logmel: Frames, phones: PhoneSequence) -> Array | None:
        """Return the tied state (T,) of each frame, a target that an encoder can learn."""
        states, _ = self.expand(phones)
        path = best_path(self.mixtures, cepstral_features(logmel), states)
        return None if path is None else states[path]

    def save(self, path: Path) -> None:
        """Write the aligner to a safetensors file."""
        arrays = {name: value.astype(np.float32) for name, value in vars(self.mixtures).items()}
        write_whole(path, save({"table": self.table} | arrays, {"phones": OWN_PHONES}))

    @classmethod
    def load(cls, path: Path) -> "TriphoneAligner":
        """Return the aligner in a file.

        Raises:
            OSError: no such file.
            ValueError: not an aligner, or one of other phones.
        """
        try:
            with safe_open(path, "numpy") as file:
                if (phones := (file.metadata() or {}).get("phones")) != OWN_PHONES:
                    raise ValueError("no phones" if phones is None else f"the phones {phones}")
                table, *parts = (file.get_tensor(name) for name in PARTS)
            shapes = [one.shape for one in (table, *parts)]
            fit = shapes[0] == CONTEXTS and shapes[1] == shapes[2][:2] and shapes[2] == shapes[3]
            if not fit or not 0 <= table.min() <= table.max() < len(parts[0]):
                raise ValueError(f"arrays of the shapes {shapes}")
        except (SafetensorError, ValueError) as error:
            raise ValueError(f"expected an aligner of phones in {path}, got {error}") from None
        return cls(table, Mixtures(*parts))


def train(
    utterances: Sequence[tuple[Frames, PhoneSequence]], max_states: int, min_frames: int = 120
) -> TriphoneAligner:
    """Return an aligner that is trained on (T, F) log-mel frames and their phones.

    Args:
        utterances: frames and phones of each.
        max_states: tied ones, without silence.
        min_frames: of each state that comes of a split.
    """
    features = [cepstral_features(logmel) for logmel, _ in utterances]
    sequences = [phones for _, phones in utterances]
    depth = features[0].shape[1]
    numbers = 1 + np.arange(EDGE * STATES, dtype=np.int32).reshape(1, EDGE, 1, STATES)
    table = np.broadcast_to(numbers, CONTEXTS).copy()
    monophones = TriphoneAligner(table, Mixtures.standard(1 + EDGE * STATES, depth))
    states = [monophones.expand(phones)[0] for phones in sequences]
    flat = [uniform_path(len(x), s) for x, s in zip(features, states, strict=True)]
    monophones.mixtures, paths = train_mixtures(
        monophones.mixtures, features, states, flat, MONOPHONE_ITERATIONS
    )

    contexts = [_contexts(monophones, s, path) for s, path in zip(sequences, paths, strict=True)]
    context = np.concatenate(contexts, 1)
    aligned = np.concatenate([x for x, p in zip(features, paths, strict=True) if p is not None])
    spoken = context[1] != EDGE
    table = tie_states(context[:, spoken], aligned[spoken], max_states, min_frames)

    triphones = TriphoneAligner(table, Mixtures.standard(1 + table.max(), depth))
    states = [triphones.expand(phones)[0] for phones in sequences]
    triphones.mixtures, _ = train_mixtures(
        triphones.mixtures, features, states, paths, TRIPHONE_ITERATIONS
    )
    return triphones


def _contexts(aligner: TriphoneAligner, phones: PhoneSequence, path: Array | None) -> Array:
    """Return (4, T) of each frame: left phone, own phone, right phone, which of its states."""
    if path is None:
        return np.zeros((4, 0), np.int64)
    _, index = aligner.expand(phones)
    nth = np.arange(len(index)) - np.searchsorted(index, index)
    own = index[path]
    return np.stack([phones.left[own], phones.phones[own], phones.right[own], nth[path]])
