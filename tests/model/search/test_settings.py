"""The settings of a search, from a user's wishes, and their name."""

import math
from typing import Any

import pytest

from cortado.model.backends.choice import choose
from cortado.model.backends.cpu.recognizer import FastRecognizer
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.emission import FLUSH_STEPS
from cortado.model.search.language_model import NONE
from cortado.model.search.settings import (
    DEFAULT_BEAM,
    GREEDY,
    MAX_WAIT_MS,
    MAX_WIDTH,
    beam_from_options,
)
from cortado.tests.model.search.words import said
from cortado.tests.model.untrained import untrained


def test_a_wish_becomes_a_search() -> None:
    assert beam_from_options(None, None) is None
    assert beam_from_options(1, None) == GREEDY
    assert DEFAULT_BEAM.width == 128
    assert beam_from_options(128, None) == DEFAULT_BEAM
    for narrow in (4, 24):
        assert beam_from_options(narrow, None) == DEFAULT_BEAM._replace(width=narrow)
    assert beam_from_options(None, 400) == DEFAULT_BEAM._replace(max_wait=10, rival_wait=18)
    assert beam_from_options(256, None) == DEFAULT_BEAM._replace(width=256, pruning=10.4)
    patient = DEFAULT_BEAM._replace(width=256, max_wait=30, rival_wait=30, pruning=10.4)
    assert beam_from_options(256, 1200) == patient
    beyond = (MAX_WIDTH + 1, None), (None, MAX_WAIT_MS + 1)
    for width, wait in ((0, None), (None, -1), (1, 400), *beyond):
        with pytest.raises(ValueError, match="expected"):
            beam_from_options(width, wait)


@pytest.mark.parametrize("given", [1.5, 2.0, math.nan, "4", [4]])
def test_a_search_in_what_is_no_whole_number_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a beam of 1 to 256 hypotheses, got"):
        beam_from_options(given, None)
    with pytest.raises(ValueError, match=r"expected --hold in whole ms from 0 to 2000, got"):
        beam_from_options(None, given)


def test_a_backend_is_named_by_its_search() -> None:
    model = untrained().recognizer
    assert choose(model, "reference").name == "reference-beam128"
    assert choose(model, "reference", GREEDY).name == "reference"
    assert choose(model, "reference").digest != choose(model, "reference", GREEDY).digest
    assert choose(model, "reference").flush_steps == FLUSH_STEPS + DEFAULT_BEAM.rival_wait


@pytest.mark.parametrize("kind", [ReferenceRecognizer, FastRecognizer])
def test_a_language_model_is_in_the_name_and_the_digest(
    kind: type[ReferenceRecognizer] | type[FastRecognizer],
) -> None:
    model = untrained().recognizer
    every = [NONE, said(), said(3), said(2, 2.0)]
    found = [kind(model, beam=DEFAULT_BEAM._replace(words=words)) for words in every]
    assert [one.name.endswith("-beam128-lm") for one in found] == [False, True, True, True]
    assert [one.beam.uses_language_model for one in found] == [False, True, True, True]
    assert len({one.digest for one in found}) == 4
    again = kind(model, beam=DEFAULT_BEAM._replace(words=said.__wrapped__()))
    assert again.digest == found[1].digest
