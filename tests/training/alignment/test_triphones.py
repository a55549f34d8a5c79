"""Phones in context are found where they are said, and their states are tied by what they are."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.training.alignment.triphones import Said, Sizes, Triphones, learnt, said
from cortado.training.alignment.tying import CLASSES, EDGE, STATES, questions, tied
from cortado.training.data.pronounce import PHONES, Lexicon

BANDS = 80
WORDS = dict(
    line.split(maxsplit=1)
    for line in (
        *("sat s æ t", "moon m u n", "tee t i", "sees s i z", "met m ɛ t"),
        *("tease t i z", "noose n u s", "ten t ɛ n", "mat m æ t", "zoo z u"),
    )
)
LEXICON = Lexicon({word: [PHONES.index(p) for p in ps.split()] for word, ps in WORDS.items()})
Utterance = tuple[NDArray[np.float32], str, list[int]]  # frames, text, where its phones end


def spoken(rng: np.random.Generator) -> Utterance:
    """Frames in which each phone has a spectrum of its own, pauses between some words."""
    words = [list(WORDS)[int(k)] for k in rng.integers(len(WORDS), size=4)]
    spectra = np.random.default_rng(0).normal(0, 3, (EDGE + 1, BANDS))
    rows, ends = [EDGE] * 20, []
    for word in words:
        for phone in LEXICON.words[word]:
            rows += [phone] * int(rng.integers(6, 14))
            ends.append(len(rows))
        rows += [EDGE] * int(rng.choice([0, 12]))
    rows += [EDGE] * 20
    frames = spectra[rows] + rng.normal(0, 0.7, (len(rows), BANDS))
    return frames.astype(np.float32), " ".join(words), ends


def words_of(text: str) -> Said:
    found = said(text, LEXICON)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def utterances() -> list[Utterance]:
    rng = np.random.default_rng(1)
    return [spoken(rng) for _ in range(80)]


@pytest.fixture(scope="module")
def aligner(utterances: list[Utterance]) -> Triphones:
    return learnt([(frames, words_of(text)) for frames, text, _ in utterances], Sizes(60, 30))


def test_phones_end_where_they_were_put(aligner: Triphones, utterances: list[Utterance]) -> None:
    away = []
    for frames, text, ends in utterances[:20]:
        found = aligner.aligned(frames, words_of(text))
        assert found is not None
        assert [one.phone for one in found] == [p for w in text.split() for p in LEXICON.words[w]]
        assert all(a.stop <= b.start for a, b in pairwise(found))
        away += [abs(one.stop - end) for one, end in zip(found, ends, strict=True)]
    assert np.median(away) <= 1
    assert np.mean(np.array(away) <= 3) > 0.9


def test_targets_are_states_of_each_frame(aligner: Triphones, utterances: list[Utterance]) -> None:
    frames, text, ends = utterances[0]
    targets = aligner.targets(frames, words_of(text))
    assert targets is not None
    assert targets.shape == (len(frames),)
    assert targets[0] == targets[-1] == 0
    assert targets.max() < aligner.states
    assert (targets[18 + 4 : ends[0] - 3] > 0).all()


def test_it_is_the_same_from_a_file(
    aligner: Triphones, utterances: list[Utterance], tmp_path: Path
) -> None:
    aligner.save(tmp_path / "aligner.safetensors")
    again = Triphones.load(tmp_path / "aligner.safetensors")
    frames, text, _ = utterances[3]
    assert again.aligned(frames, words_of(text)) == aligner.aligned(frames, words_of(text))


def test_there_is_nothing_where_there_is_no_room_or_no_pronunciation(aligner: Triphones) -> None:
    assert aligner.aligned(np.zeros((4, BANDS), np.float32), words_of("sat moon")) is None
    assert said("", LEXICON) is None
    assert said("sat down", Lexicon({"sat": [1], "down": []})) is None
    assert said("who", LEXICON) is None


def test_contexts_that_sound_alike_are_one_state() -> None:
    rng = np.random.default_rng(2)
    count = 6000
    left = rng.integers(EDGE + 1, size=count)
    context = np.stack([left, *(np.full(count, one) for one in (5, EDGE, 1))])
    nasal = questions()[[name.startswith("m n") for name in CLASSES].index(True)]
    frames = rng.normal(0, 1, (count, 4)) + 3.0 * nasal[left][:, None]
    found = tied(context, frames.astype(np.float32), EDGE * STATES + 1, 50)
    assert found.states == EDGE * STATES + 1
    states = found.table[:, 5, EDGE, 1]
    assert len(set(states[nasal].tolist())) == len(set(states[~nasal].tolist())) == 1
    assert states[nasal][0] != states[~nasal][0]


def test_each_phone_has_states_of_its_own() -> None:
    found = tied(np.zeros((4, 0), np.int64), np.zeros((0, 4), np.float32), 500, 10)
    assert found.states == EDGE * STATES
    assert len(np.unique(found.table)) == EDGE * STATES
    assert found.table.min() == 1


def test_every_class_names_phones() -> None:
    assert questions()[: len(CLASSES)].any(1).all()
    assert not questions()[: len(CLASSES), EDGE].any()
