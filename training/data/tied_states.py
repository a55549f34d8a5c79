"""The tied states of phones that are said in a corpus' frames, found once and kept in its cache."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cortado.model.features.framing import FRAMES_PER_STEP
from cortado.model.progress import Count, unwatched
from cortado.model.whole_file import whole
from cortado.training.alignment.triphones import (
    PhoneSequence,
    TriphoneAligner,
    phone_sequence,
    train,
)
from cortado.training.data.log_mel_cache import CachedCorpus, CachedUtterance
from cortado.training.data.pronounce import Lexicon

States = NDArray[np.int16]
UNKNOWN = -1  # of frames without an alignment
TARGET_DELAY = 0.8  # of its look-ahead, by which an encoder frame lags its target: 90 of 110 ms
TRAINING_FRAMES = 2_000_000  # on which an aligner is trained, at most: five and a half hours


def aligner(
    corpora: Sequence[CachedCorpus], lexicon: Lexicon, path: Path, states: int
) -> TriphoneAligner:
    """Return the aligner kept in a file; trained on every n-th utterance if there is none.

    Args:
        corpora: to train it on.
        lexicon: of their words.
        path: of the file.
        states: tied ones, at most.

    Raises: ValueError where there is nothing to train it on; OSError.
    """
    if path.exists():
        return TriphoneAligner.load(path)
    rows = [(corpus, one) for corpus in corpora for one in _spoken(corpus, lexicon)]
    if not rows:
        raise ValueError("expected recordings whose words espeak-ng pronounces, got none")
    total = sum(corpus.utterances[index].frames for corpus, (index, _) in rows)
    some = rows[:: -(-total // TRAINING_FRAMES)]
    found = train([(corpus.logmel(index), text) for corpus, (index, text) in some], states)
    for corpus in corpora:  # another aligner has other states
        for stale in corpus.folder.glob("states-*.i16"):
            stale.unlink()
    found.save(path)
    return found


def states_of(
    corpus: CachedCorpus,
    aligner: TriphoneAligner,
    lexicon: Lexicon,
    progress: Count = unwatched,
) -> States:
    """Return the state of each frame in a corpus' cache, UNKNOWN where there is no alignment."""
    said = hashlib.sha256(repr([(u.key, u.start, u.text) for u in corpus.utterances]).encode())
    path = corpus.folder / f"states-{said.hexdigest()[:12]}.i16"
    if not path.exists():
        frames = max((u.start + u.frames for u in corpus.utterances), default=0)
        found = np.full(frames, UNKNOWN, np.int16)
        for index, text in _spoken(corpus, lexicon):
            utterance = corpus.utterances[index]
            targets = aligner.frame_states(corpus.logmel(index), text)
            if targets is not None:
                found[utterance.start : utterance.start + utterance.frames] = targets
            progress(index + 1, len(corpus))
        _fill_other_speeds(found, corpus.utterances)
        with whole(path) as part:
            found.tofile(part)
    return np.memmap(path, np.int16, "r")


def _fill_other_speeds(found: States, utterances: Sequence[CachedUtterance]) -> None:
    """Give recordings at other speeds the states that they have at their own."""
    recorded = {one.id: one for one in utterances if one.speed == 1}
    for one in utterances:
        if one.speed != 1:
            source = recorded[one.id]
            at = np.minimum(np.arange(one.frames) * one.speed, source.frames - 1).astype(np.int64)
            found[one.start : one.start + one.frames] = found[source.start + at]


def retimed_states(states: States, utterance: CachedUtterance, frames: int) -> States:
    """Return the states (T,) of an utterance's frames, at the tempo that it has in a batch.

    Args:
        states: of all frames of its corpus.
        utterance: where it lies.
        frames: of 10 ms that it has in the batch.
    """
    own = states[utterance.start : utterance.start + utterance.frames]
    return own[np.arange(frames) * len(own) // frames]


def encoder_targets(states: States, lead: int, lookahead: int, delay: int = 0) -> States:
    """Return the state (T',) that each encoder frame learns, UNKNOWN in the lead.

    Args:
        states: (T,) of the frames of 10 ms.
        lead: frames before them; below 0 so many of them are left out.
        lookahead: frames that the encoder and the features look ahead.
        delay: frames more by which it lags its target: what follows a phone tells of it.
    """
    ends = np.arange(FRAMES_PER_STEP - 1, len(states) + lead, FRAMES_PER_STEP)
    at = ends - round(TARGET_DELAY * lookahead) - delay - lead
    return np.where(at >= 0, states[np.clip(at, 0, len(states) - 1)], UNKNOWN).astype(np.int16)


def _spoken(corpus: CachedCorpus, lexicon: Lexicon) -> Iterator[tuple[int, PhoneSequence]]:
    """Yield the utterances, at their own speed, whose words can all be pronounced."""
    for index, utterance in enumerate(corpus.utterances):
        if utterance.speed != 1:
            continue
        phones = phone_sequence(utterance.text, lexicon)
        if phones is not None:
            yield index, phones
