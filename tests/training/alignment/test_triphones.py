"""Phones in context are found where they are said, and their states are tied by what they are."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from cortado.training.alignment.triphones import (
    OWN_PHONES,
    PhoneSequence,
    TriphoneAligner,
    phone_sequence,
    train,
)
from cortado.training.alignment.tying import CLASSES, EDGE, STATES, questions, tie_states
from cortado.training.data.pronounce import PHONES

BANDS = 80
WORDS = dict(
    line.split(maxsplit=1)
    for line in (
        *("sat s æ t", "moon m u n", "tee t i", "sees s i z", "met m ɛ t"),
        *("tease t i z", "noose n u s", "ten t ɛ n", "mat m æ t", "zoo z u"),
    )
)
LEXICON = {word: [PHONES.index(p) for p in ps.split()] for word, ps in WORDS.items()}
Utterance = tuple[NDArray[np.float32], str, list[int]]  # frames, text, where its phones end


def spoken(rng: np.random.Generator) -> Utterance:
    """Frames in which each phone has a spectrum of its own, pauses between some words."""
    words = [list(WORDS)[int(k)] for k in rng.integers(len(WORDS), size=4)]
    spectra = np.random.default_rng(0).normal(0, 3, (EDGE + 1, BANDS))
    rows, ends = [EDGE] * 20, []
    for word in words:
        for phone in LEXICON[word]:
            rows += [phone] * int(rng.integers(6, 14))
            ends.append(len(rows))
        rows += [EDGE] * int(rng.choice([0, 12]))
    rows += [EDGE] * 20
    frames = spectra[rows] + rng.normal(0, 0.7, (len(rows), BANDS))
    return frames.astype(np.float32), " ".join(words), ends


def words_of(text: str) -> PhoneSequence:
    found = phone_sequence(text, LEXICON)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def utterances() -> list[Utterance]:
    rng = np.random.default_rng(1)
    return [spoken(rng) for _ in range(80)]


@pytest.fixture(scope="module")
def aligner(utterances: list[Utterance]) -> TriphoneAligner:
    return train([(frames, words_of(text)) for frames, text, _ in utterances], 60, 30)


def test_phones_end_where_they_were_put(
    aligner: TriphoneAligner, utterances: list[Utterance]
) -> None:
    away = []
    for frames, text, ends in utterances[:20]:
        found = aligner.spans(frames, words_of(text))
        assert found is not None
        assert [one.phone for one in found] == [p for w in text.split() for p in LEXICON[w]]
        assert all(a.stop <= b.start for a, b in pairwise(found))
        away += [abs(one.stop - end) for one, end in zip(found, ends, strict=True)]
    assert np.median(away) <= 1
    assert np.mean(np.array(away) <= 3) > 0.9


def test_targets_are_states_of_each_frame(
    aligner: TriphoneAligner, utterances: list[Utterance]
) -> None:
    frames, text, ends = utterances[0]
    frame_states = aligner.frame_states(frames, words_of(text))
    assert frame_states is not None
    assert frame_states.shape == (len(frames),)
    assert frame_states[0] == frame_states[-1] == 0
    assert frame_states.max() < aligner.states
    assert (frame_states[18 + 4 : ends[0] - 3] > 0).all()


def test_it_is_the_same_from_a_file(
    aligner: TriphoneAligner, utterances: list[Utterance], tmp_path: Path
) -> None:
    aligner.save(tmp_path / "aligner.safetensors")
    again = TriphoneAligner.load(tmp_path / "aligner.safetensors")
    frames, text, _ = utterances[3]
    assert again.spans(frames, words_of(text)) == aligner.spans(frames, words_of(text))


BROKEN: list[tuple[dict[str, NDArray[np.float32] | None], dict[str, str], str]] = [
    ({}, {"phones": "a b"}, "the phones a b"),
    ({"variances": None}, {"phones": OWN_PHONES}, ".*variances"),
    ({}, {}, "no phones"),
    ({"table": np.zeros((2, 3), np.float32)}, {"phones": OWN_PHONES}, "arrays of the shapes"),
    ({"means": np.zeros((2, 3), np.float32)}, {"phones": OWN_PHONES}, "arrays of the shapes"),
    ({"weights": np.zeros((2, 1), np.float32)}, {"phones": OWN_PHONES}, "arrays of the shapes"),
]


@pytest.mark.parametrize(("changed", "about", "got"), BROKEN)
def test_a_file_of_something_else_is_refused_by_name(
    aligner: TriphoneAligner,
    tmp_path: Path,
    changed: dict[str, NDArray[np.float32] | None],
    about: dict[str, str],
    got: str,
) -> None:
    path = tmp_path / "aligner.safetensors"
    aligner.save(path)
    arrays = load_file(path) | changed
    save_file({name: part for name, part in arrays.items() if part is not None}, path, about)
    with pytest.raises(ValueError, match=f"expected an aligner of phones in {path}, got {got}"):
        TriphoneAligner.load(path)


@pytest.mark.parametrize("content", [b"", b"not an aligner at all", b"\xff" * 100])
def test_a_file_that_is_no_safetensors_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "aligner.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"expected an aligner of phones in {path}, got "):
        TriphoneAligner.load(path)


def test_there_is_nothing_where_there_is_no_room_or_no_pronunciation(
    aligner: TriphoneAligner,
) -> None:
    assert aligner.spans(np.zeros((4, BANDS), np.float32), words_of("sat moon")) is None
    assert phone_sequence("", LEXICON) is None
    assert phone_sequence("sat down", {"sat": [1], "down": []}) is None
    assert phone_sequence("who", LEXICON) is None


def test_contexts_that_sound_alike_are_one_state() -> None:
    rng = np.random.default_rng(2)
    count = 6000
    left = rng.integers(EDGE + 1, size=count)
    context = np.stack([left, *(np.full(count, one) for one in (5, EDGE, 1))])
    nasal = questions()[[name.startswith("m n") for name in CLASSES].index(True)]
    frames = rng.normal(0, 1, (count, 4)) + 3.0 * nasal[left][:, None]
    found = tie_states(context, frames.astype(np.float32), EDGE * STATES + 1, 50)
    assert found.max() == EDGE * STATES + 1
    states = found[:, 5, EDGE, 1]
    assert len(set(states[nasal].tolist())) == len(set(states[~nasal].tolist())) == 1
    assert states[nasal][0] != states[~nasal][0]


def test_each_phone_has_states_of_its_own() -> None:
    found = tie_states(np.zeros((4, 0), np.int64), np.zeros((0, 4), np.float32), 500, 10)
    assert len(np.unique(found)) == found.max() == EDGE * STATES
    assert found.min() == 1


def test_every_class_names_phones() -> None:
    assert questions()[: len(CLASSES)].any(1).all()
    assert not questions()[: len(CLASSES), EDGE].any()
