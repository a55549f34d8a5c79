"""The state of a beam search: the hypotheses of streams, and memory for a frame's candidates."""

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cortado.model.search import ctc_score as ctc
from cortado.model.search import phrases, pronunciation
from cortado.model.search.look_ahead import Known, known
from cortado.model.search.settings import Beam, max_committed

Array = NDArray[Any]

NOTHING = np.float32(-np.inf)  # the score of no hypothesis


class Hypotheses(NamedTuple):
    """K hypotheses of each of S streams, without their decoder states, which the backend keeps."""

    scores: Array  # (S, K) float32: nats below the best; -inf for no hypothesis
    decoded: Array  # (S, K) float32: nats by the decoder alone, relative to the best one's
    hashes: Array  # (S, K) int64: of the whole text
    words: Array  # (S, K, 3) int32: language model state: tree node, the two last words
    lengths: Array  # (S, K) int32: number of uncommitted symbols
    symbols: Array  # (S, K, N) int16: uncommitted symbols, a ring buffer from `first` on
    frames: Array  # (S, K, N) int32: the frame of each
    first: Array  # (S, 1) int32: place of the oldest uncommitted symbol in the rings
    clock: Array  # (S, 1) int32: number of frames so far
    last_committed: Array  # (S, 1) int32: frame of the last committed symbol
    forward: Array  # (S, K, PLACES, 2) float32: CTC forward variables (ctc_score.py)
    last: Array  # (S, K, LAG + 1) int32: the text's last symbols, newest first
    heard: Array  # (S, HISTORY - 1, V + 1) float32: the CTC head's probabilities of the last frames
    voice: Array  # (S, 2) float32: how strange the voice is (voice.py)
    begun: Array  # (S, K, PLACES) float32: scores of pronunciations (pronunciation.py)
    spoken: Array  # (S, HISTORY, P) float32: the phone head's scores of the last frames
    phrase: Array  # (S, K) int16: the node of the tree of phrases
    trees: Array  # (S, NODES, PARTS) int16: of the phrases that each stream expects (phrases.py)
    sounds: Array  # (S, PHONES) int32: phones of their words


class Candidates(NamedTuple):
    """Memory for one frame of R streams: the hypotheses before it, then those extended at it."""

    sizes: Array  # (R,) int64: number of candidates
    best: Array  # (R,) float32: the best score before the frame
    scores: Array  # (R, E) float32: nats, before stopping or moving on
    passed_scores: Array  # (R, E) float32: nats, after moving past the frame
    decoded: Array  # (R, E) float32: nats by the decoder alone
    hashes: Array  # (R, E) int64
    words: Array  # (R, E, 3) int32
    forward: Array  # (R, E, PLACES, 2) float32
    last: Array  # (R, E, LAG + 1) int32
    heard: Array  # (R, HISTORY - 1, V + 1) float32
    begun: Array  # (R, E, PLACES) float32
    spoken: Array  # (R, HISTORY, P) float32
    phrase: Array  # (R, E) int16
    trees: Array  # (R, NODES, PARTS) int16: of the streams that expect phrases
    sounds: Array  # (R, PHONES) int32
    expecting: Array  # (R,) bool: which do
    ended: Array  # (HISTORY,) float32: memory
    gains: Array  # (3, V) float32: memory
    known: Known  # what the language model gives texts (look_ahead.py)
    origins: Array  # (R, E) int64: the hypothesis before the frame that it extends
    slots: Array  # (R, E) int64: slot of its decoder state; -1 for the state of its origin
    written_count: Array  # (R, E) int64: number of symbols written at this frame
    written: Array  # (R, E, C) int16: those symbols
    scanning: Array  # (R K, 2) int64: stream and candidate, of those that need an energy
    stopping: Array  # (R K, 2) int64: stream and candidate, of those that need logits
    stop_scores: Array  # (R K,) float32: nats of those, after the stop
    stop_decoded: Array  # (R K,) float32: nats of those by the decoder alone, after the stop
    next_decoded: Array  # (R K, V) float32: and with each symbol
    moves: Array  # (R K, 3) int64: stream, hypothesis, slot of its new decoder state
    symbols: Array  # (K, N) int16: working copy of a stream's symbols
    frames: Array  # (K, N) int32: and of their frames


def hypotheses(streams: int, beam: Beam, cap: int, vocabulary: int, phones: int = 0) -> Hypotheses:
    """Return hypotheses of streams without audio yet, for at most `cap` symbols a frame."""
    k, n = beam.width, max_committed(beam, cap)
    history, places = (pronunciation.HISTORY, pronunciation.PLACES) if beam.phones > 0 else (0, 0)
    found = Hypotheses(
        scores=np.full((streams, k), NOTHING),
        decoded=np.zeros((streams, k), np.float32),
        hashes=np.zeros((streams, k), np.int64),
        words=np.zeros((streams, k, 3), np.int32),
        lengths=np.zeros((streams, k), np.int32),
        symbols=np.zeros((streams, k, n), np.int16),
        frames=np.zeros((streams, k, n), np.int32),
        first=np.zeros((streams, 1), np.int32),
        clock=np.zeros((streams, 1), np.int32),
        last_committed=np.zeros((streams, 1), np.int32),
        forward=np.zeros((streams, k, ctc.PLACES, 2), np.float32),
        last=np.zeros((streams, k, ctc.LAG + 1), np.int32),
        heard=np.zeros((streams, ctc.NOW, vocabulary + 1), np.float32),
        voice=np.zeros((streams, 2), np.float32),
        begun=np.zeros((streams, k, places), np.float32),
        spoken=np.zeros((streams, history, phones), np.float32),
        phrase=np.zeros((streams, k), np.int16),
        trees=np.zeros((streams, phrases.NODES, phrases.PARTS), np.int16),
        sounds=np.zeros((streams, phrases.PHONES), np.int32),
    )
    found.scores[:, 0] = 0
    _begin(found.forward, found.last, found.begun)
    return found


def candidates(streams: int, beam: Beam, cap: int, vocabulary: int, phones: int = 0) -> Candidates:
    """Return memory for a frame of so many streams, for at most `cap` symbols a frame."""
    k, n = beam.width, max_committed(beam, cap)
    each = (streams, k * (cap + 1))
    history, places = (pronunciation.HISTORY, pronunciation.PLACES) if beam.phones > 0 else (0, 0)
    return Candidates(
        sizes=np.zeros(streams, np.int64),
        best=np.zeros(streams, np.float32),
        scores=np.zeros(each, np.float32),
        passed_scores=np.zeros(each, np.float32),
        decoded=np.zeros(each, np.float32),
        hashes=np.zeros(each, np.int64),
        words=np.zeros((*each, 3), np.int32),
        forward=np.zeros((*each, ctc.PLACES, 2), np.float32),
        last=np.zeros((*each, ctc.LAG + 1), np.int32),
        heard=np.zeros((streams, ctc.NOW, vocabulary + 1), np.float32),
        begun=np.zeros((*each, places), np.float32),
        spoken=np.zeros((streams, history, phones), np.float32),
        phrase=np.zeros(each, np.int16),
        trees=np.zeros((streams, phrases.NODES, phrases.PARTS), np.int16),
        sounds=np.zeros((streams, phrases.PHONES), np.int32),
        expecting=np.zeros(streams, np.bool_),
        ended=np.zeros(history, np.float32),
        gains=np.zeros((3, vocabulary), np.float32),
        known=known(beam.words, vocabulary),
        origins=np.zeros(each, np.int64),
        slots=np.zeros(each, np.int64),
        written_count=np.zeros(each, np.int64),
        written=np.zeros((*each, cap), np.int16),
        scanning=np.zeros((streams * k, 2), np.int64),
        stopping=np.zeros((streams * k, 2), np.int64),
        stop_scores=np.zeros(streams * k, np.float32),
        stop_decoded=np.zeros(streams * k, np.float32),
        next_decoded=np.zeros((streams * k, vocabulary), np.float32),
        moves=np.zeros((streams * k, 3), np.int64),
        symbols=np.zeros((k, n), np.int16),
        frames=np.zeros((k, n), np.int32),
    )


@numba.njit(nogil=True, forceinline=True)
def place(first: int, n: int, ring: int) -> int:
    """Return the place of the symbol `n` <= `ring` behind that at place `first` of a ring."""
    at = first + n
    return at - ring if at >= ring else at


def _begin(forward: Array, last: Array, begun: Array) -> None:
    """Set what the heads say of hypotheses to what they say of empty texts."""
    ctc.begin(forward, last)
    if begun.shape[-1]:
        pronunciation.begin(begun)


def restart(rows: Array, h: Hypotheses) -> None:
    """Reset the streams in (R,) rows to one empty hypothesis; phrases and voices stay."""
    h.scores[rows] = NOTHING
    h.scores[rows, 0] = 0
    h.decoded[rows] = 0
    h.hashes[rows] = 0
    h.words[rows] = 0
    h.lengths[rows] = 0
    h.phrase[rows] = 0
    for row in np.atleast_1d(rows):
        _begin(h.forward[row], h.last[row], h.begun[row])
