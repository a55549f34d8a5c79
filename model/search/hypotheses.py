"""The state of a beam search: the hypotheses of streams, and memory for a frame's candidates."""

from typing import Annotated, NamedTuple

import numpy as np

from cortado.model.arrays import Array, zeros
from cortado.model.compiled.jit import uncounted
from cortado.model.search import ctc_score as ctc
from cortado.model.search import phrases, pronunciation
from cortado.model.search.look_ahead import Known, known
from cortado.model.search.neural_language_model import Histories, histories
from cortado.model.search.settings import Beam, max_committed

F32, I16, I32, I64 = np.float32, np.int16, np.int32, np.int64

NOTHING = np.float32(-np.inf)  # the score of no hypothesis


class Hypotheses(NamedTuple):
    """K hypotheses of each of S streams, without their decoder states, which the backend keeps."""

    scores: Annotated[Array, F32, "S", "K"]  # nats below the best; -inf for no hypothesis
    decoded: Annotated[Array, F32, "S", "K"]  # nats by the decoder alone, as above
    hashes: Annotated[Array, I64, "S", "K"]  # of the whole text
    chosen: Annotated[Array, F32, "S", "K"]  # nats by which they are weighed for what is committed
    words: Annotated[Array, I32, "S", "K", 3]  # language model state: tree node, the two last words
    earlier: Annotated[Array, I32, "S", "K", "N-2"]  # and the words before those, newest first
    lengths: Annotated[Array, I32, "S", "K"]  # number of uncommitted symbols
    symbols: Annotated[Array, I16, "S", "K", "N"]  # uncommitted symbols, a ring from `first` on
    frames: Annotated[Array, I32, "S", "K", "N"]  # the frame of each
    first: Annotated[Array, I32, "S", 1]  # place of the oldest uncommitted symbol in the rings
    clock: Annotated[Array, I32, "S", 1]  # number of frames so far
    last_committed: Annotated[Array, I32, "S", 1]  # frame of the last committed symbol
    forward: Annotated[Array, F32, "S", "K", ctc.PLACES, 2]  # CTC forward variables (ctc_score.py)
    last: Annotated[Array, I32, "S", "K", ctc.LAG + 1]  # the text's last symbols, newest first
    heard: Annotated[Array, F32, "S", ctc.NOW, "V+1"]  # the CTC head's last probabilities
    voice: Annotated[Array, F32, "S", 2]  # how strange the voice is (voice.py)
    begun: Annotated[Array, F32, "S", "K", "places"]  # scores of pronunciations (pronunciation.py)
    reached: Annotated[Array, F32, "S", "K", "reached"]  # and of their last words' phones
    spoken: Annotated[Array, F32, "S", "history", "P"]  # the phone head's scores of the last frames
    phrase: Annotated[Array, I16, "S", "K"]  # the node of the tree of phrases
    trees: Annotated[Array, I16, "S", phrases.NODES, phrases.PARTS]  # of expected phrases
    sounds: Annotated[Array, I32, "S", phrases.PHONES]  # phones of their words


class Candidates(NamedTuple):
    """Memory for one frame of R streams: the hypotheses before it, then those extended at it."""

    sizes: Annotated[Array, I64, "R"]  # number of candidates
    best: Annotated[Array, F32, "R"]  # the best score before the frame
    scores: Annotated[Array, F32, "R", "E"]  # nats, before stopping or moving on
    passed_scores: Annotated[Array, F32, "R", "E"]  # nats, after moving past the frame
    decoded: Annotated[Array, F32, "R", "E"]  # nats by the decoder alone
    hashes: Annotated[Array, I64, "R", "E"]
    words: Annotated[Array, I32, "R", "E", 3]
    earlier: Annotated[Array, I32, "R", "E", "N-2"]
    forward: Annotated[Array, F32, "R", "E", ctc.PLACES, 2]
    last: Annotated[Array, I32, "R", "E", ctc.LAG + 1]
    heard: Annotated[Array, F32, "R", ctc.NOW, "V+1"]
    begun: Annotated[Array, F32, "R", "E", "places"]
    reached: Annotated[Array, F32, "R", "E", "reached"]
    spoken: Annotated[Array, F32, "R", "history", "P"]
    phrase: Annotated[Array, I16, "R", "E"]
    trees: Annotated[Array, I16, "R", phrases.NODES, phrases.PARTS]  # of expected phrases
    sounds: Annotated[Array, I32, "R", phrases.PHONES]
    expecting: Annotated[Array, np.bool_, "R"]  # which do
    ended: Annotated[Array, F32, "history"]  # memory
    oldest: Annotated[Array, F32, "places"]  # memory
    ways: Annotated[Array, F32, "reached"]  # memory
    shares: Annotated[Array, F32, "N+1"]  # memory
    gains: Annotated[Array, F32, 3, "V"]  # memory
    known: Known  # what the language model gives texts (look_ahead.py)
    histories: Histories  # and what the neural one makes of words (neural_language_model.py)
    origins: Annotated[Array, I64, "R", "E"]  # the hypothesis before the frame that it extends
    slots: Annotated[Array, I64, "R", "E"]  # of its decoder state; -1 for its origin's
    written_count: Annotated[Array, I64, "R", "E"]  # number of symbols written at this frame
    written: Annotated[Array, I16, "R", "E", "C"]  # those symbols
    scanning: Annotated[Array, I64, "R K", 2]  # stream and candidate, of those that need an energy
    stopping: Annotated[Array, I64, "R K", 2]  # stream and candidate, of those that need logits
    stop_scores: Annotated[Array, F32, "R K"]  # nats of those, after the stop
    stop_decoded: Annotated[Array, F32, "R K"]  # nats of those by the decoder alone, after the stop
    next_decoded: Annotated[Array, F32, "R K", "V"]  # and with each symbol
    moves: Annotated[Array, I64, "R K", 3]  # stream, hypothesis, slot of its new decoder state
    symbols: Annotated[Array, I16, "K", "N"]  # working copy of a stream's symbols
    frames: Annotated[Array, I32, "K", "N"]  # and of their frames


def hypotheses(streams: int, beam: Beam, cap: int, vocabulary: int, phones: int = 0) -> Hypotheses:
    """Return hypotheses of streams without audio yet, for at most `cap` symbols a frame."""
    found = zeros(Hypotheses, {"S": streams} | _sizes(beam, cap, vocabulary, phones))
    found.scores[:] = NOTHING
    found.scores[:, 0] = 0
    found.chosen[:] = found.scores
    _begin(found.forward, found.last, found.begun, found.reached)
    return found


def candidates(streams: int, beam: Beam, cap: int, vocabulary: int, phones: int = 0) -> Candidates:
    """Return memory for a frame of so many streams, for at most `cap` symbols a frame."""
    sizes = {"R": streams} | _sizes(beam, cap, vocabulary, phones)
    return zeros(
        Candidates,
        sizes,
        known=known(beam.words, vocabulary),
        histories=histories(beam.words.neural),
    )


def _sizes(beam: Beam, cap: int, vocabulary: int, phones: int) -> dict[str, int]:
    spoken = pronunciation.HISTORY, pronunciation.PLACES, pronunciation.REACHED
    if beam.phones == 0:
        spoken = 0, 0, 0
    each = {"K": beam.width, "E": beam.width * (cap + 1), "N": max_committed(beam, cap), "C": cap}
    each["N+1"] = each["N"] + 1
    each["N-2"] = max(beam.words.neural.words - 2, 0)
    heads = {"V": vocabulary, "V+1": vocabulary + 1, "P": phones}
    return each | heads | dict(zip(("history", "places", "reached"), spoken, strict=True))


@uncounted(forceinline=True)
def copy(given: Array, taken: Array) -> None:
    """Copy an array (N,) into another; numba's own way asks first whether they overlap."""
    for n in range(len(given)):
        taken[n] = given[n]


@uncounted(forceinline=True)
def copy_rows(given: Array, taken: Array) -> None:
    """Copy an array (N, M) into another."""
    for n in range(len(given)):
        copy(given[n], taken[n])


@uncounted(forceinline=True)
def place(first: int, n: int, ring: int) -> int:
    """Return the place of the symbol `n` <= `ring` behind that at place `first` of a ring."""
    at = first + n
    return at - ring if at >= ring else at


def _begin(forward: Array, last: Array, begun: Array, reached: Array) -> None:
    """Set what the heads say of hypotheses to what they say of empty texts."""
    ctc.begin(forward, last)
    if begun.shape[-1]:
        pronunciation.begin(begun, reached)


def restart(rows: Array, h: Hypotheses) -> None:
    """Reset the streams in (R,) rows to one empty hypothesis; phrases and voices stay."""
    h.scores[rows] = NOTHING
    h.scores[rows, 0] = 0
    h.chosen[rows] = h.scores[rows]
    h.decoded[rows] = 0
    h.hashes[rows] = 0
    h.words[rows] = 0
    h.earlier[rows] = 0
    h.lengths[rows] = 0
    h.phrase[rows] = 0
    for row in np.atleast_1d(rows):
        _begin(h.forward[row], h.last[row], h.begun[row], h.reached[row])
