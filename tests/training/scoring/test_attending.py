"""What the attention is said to look at is what decoding looks at."""

from dataclasses import replace

import numpy as np
import pytest

from cortado.model.attention.config import Kind
from cortado.model.emission import Character
from cortado.model.recognizer import Recognizer
from cortado.model.streaming.recordings import transcribe
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.tiny import MODEL
from cortado.training.scoring.attending import attend


def test_stops_and_weights_are_those_of_the_stream() -> None:
    online = untrained(MODEL)
    samples = noise(3, 3.0)
    found = attend(online.recognizer, samples, expected=True)
    assert list(found.characters) == transcribe(online, samples)
    assert len(found.characters) > 3
    assert found.weights.sum(1) == pytest.approx(1, abs=1e-5)
    for one, row in zip(found.characters, found.weights, strict=True):
        frames = np.flatnonzero(row)
        assert len(frames) <= MODEL.decoder.attention.chunk
        end = max(0.0, found.times(int(frames[-1]))[1])
        assert one.time == pytest.approx(end, abs=1e-3)
    assert found.expected is not None
    assert found.expected.shape == found.weights.shape
    assert found.duration == pytest.approx(3.0)


def test_a_text_takes_the_place_of_what_is_heard() -> None:
    online = untrained(MODEL)
    found = attend(online.recognizer, noise(3, 3.0), "ab a")
    assert "".join(one.text for one in found.characters) == "ab a"
    with pytest.raises(ValueError, match="got 'ß'"):
        attend(online.recognizer, noise(3, 1.0), "ß")


@pytest.mark.parametrize("seconds", [1 / 16_000, 0.005, 0.01, 0.3])
def test_hardly_any_sound_is_no_mistake(seconds: float) -> None:
    found = attend(untrained(MODEL).recognizer, noise(3, seconds), expected=True)
    assert len(found.weights) == len(found.characters)
    assert found.duration == max(seconds, 0.04)  # a step, which silence completes


def test_nothing_at_all_is_drawn_for_ctc_alone() -> None:
    recognizer = Recognizer(replace(MODEL, decoder=replace(MODEL.decoder, kind="ctc"))).eval()
    found = attend(recognizer, noise(3, 1.0))
    assert found.weights.shape[0] == 0
    assert all(isinstance(one, Character) for one in found.characters)


def test_attention_that_is_not_monotonic_is_drawn_where_it_looks_most() -> None:
    decoder = replace(MODEL.decoder, attention=replace(MODEL.decoder.attention, kind="soft"))
    recognizer = Recognizer(replace(MODEL, decoder=decoder)).eval()
    found = attend(recognizer, noise(3, 1.0), "ab")
    assert found.weights.sum(1) == pytest.approx(1, abs=1e-5)
    for one, row in zip(found.characters, found.weights, strict=True):
        end = max(0.0, found.times(int(row.argmax()))[1])
        assert one.time == pytest.approx(end, abs=1e-3)


@pytest.mark.parametrize("kind", ["mocha", "soft"])
def test_phones_are_drawn_one_by_one(kind: Kind) -> None:
    vocabulary = Vocabulary(phones=("sh", "iy", "h#"))
    decoder = replace(MODEL.decoder, attention=replace(MODEL.decoder.attention, kind=kind))
    config = replace(MODEL, vocabulary=vocabulary, decoder=decoder)
    recognizer = untrained(config).recognizer if kind == "mocha" else Recognizer(config).eval()
    found = attend(recognizer, noise(3, 3.0), "h# sh iy", expected=True)
    assert [one.text for one in found.characters] == ["h#", "sh", "iy"]
    assert found.text == "h# sh iy"
    assert len(found.weights) == 3
    heard = attend(recognizer, noise(3, 3.0), expected=True)
    assert {one.text for one in heard.characters} <= set(vocabulary.phones)
    assert len(heard.weights) == len(heard.characters)
    assert heard.expected is None or heard.expected.shape == heard.weights.shape
