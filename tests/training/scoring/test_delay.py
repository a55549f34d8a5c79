"""Emission delay against instants that are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from cortado.model.backends.reference import ReferenceRecognizer, State
from cortado.model.emission import FLUSH_STEPS, Character
from cortado.model.features.framing import SAMPLES_PER_STEP, STEP_SECONDS
from cortado.model.streaming.recordings import transcribe
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.tiny import MODEL
from cortado.training.scoring.delay import (
    character_ends,
    ctc_log_probs,
    delays,
    emission_offset,
    summary,
)


@pytest.fixture(scope="module")
def online() -> ReferenceRecognizer:
    return untrained(MODEL)


def path(online: ReferenceRecognizer, symbols: list[int]) -> Tensor:
    """(T, V + 1) log probabilities of which one path is nearly certain; -1 is the blank."""
    classes = len(online.vocabulary) + 1
    logits = torch.zeros(len(symbols), classes)
    logits[torch.arange(len(symbols)), torch.tensor(symbols) % classes] = 10
    return logits.log_softmax(1)


def heard(text: str, times: list[float]) -> list[Character]:
    return [Character(one, time) for one, time in zip(text, times, strict=True)]


def test_a_character_ends_with_its_last_frame_on_the_ctc_path(online: ReferenceRecognizer) -> None:
    a, b = online.vocabulary.encode("ab")
    ends = character_ends(online.recognizer, path(online, [-1, -1, -1, a, a, -1, b, b, b]), "ab")
    behind = online.recognizer.delay_steps  # frame j has been computed when j + 1 steps are heard
    assert ends == pytest.approx([(5 - behind) * STEP_SECONDS, (9 - behind) * STEP_SECONDS])


def test_a_doubled_letter_ends_twice(online: ReferenceRecognizer) -> None:
    a = online.vocabulary.encode("a")[0]
    ends = character_ends(online.recognizer, path(online, [-1, a, -1, a, -1]), "aa")
    assert ends[1] - ends[0] == pytest.approx(2 * STEP_SECONDS)


@pytest.mark.parametrize("text", ["", "ä", "aaa"], ids=["nothing", "unknown", "too long"])
def test_text_that_cannot_be_aligned_has_no_ends(online: ReferenceRecognizer, text: str) -> None:
    ends = character_ends(online.recognizer, path(online, [-1, 2, 2]), text)
    assert len(ends) == len(text)
    assert np.isnan(ends).all()


def test_only_characters_heard_right_count_and_no_spaces() -> None:
    ends = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    found = delays("a cat", ends, heard("a bat", [0.1, 0.2, 0.4, 0.6, 0.5]), 0.08)
    assert found == pytest.approx([0.08, 0.28, 0.08])
    assert delays("a cat", np.full(5, np.nan), heard("a", [0.1]), 0.08) == []


def test_a_phone_is_right_as_a_whole() -> None:
    ends = np.array([0.1, 0.1, 0.1, 0.3, 0.3])
    letters = heard("s sh iy ", [0.2] * 2 + [0.4] * 3 + [0.5] * 3)
    assert delays("sh iy", ends, letters, 0.0, phones=True) == pytest.approx([0.3, 0.2])
    assert delays("sh iy", ends, letters[:1], 0.0, phones=True) == []


def test_a_space_before_a_text_moves_no_delay() -> None:
    plain, times = delays("ab", np.array([0.1, 0.2]), heard("ab", [0.3, 0.5]), 0.0), [0.0, 0.3, 0.5]
    assert plain == pytest.approx([0.2, 0.3])
    assert delays("ab", np.array([0.1, 0.2]), heard(" ab", times), 0.0) == plain
    assert delays(" ab", np.array([0.0, 0.1, 0.2]), heard("ab", times[1:]), 0.0) == plain


def test_the_offset_is_what_a_step_waits_for(online: ReferenceRecognizer) -> None:
    """A character's time and the offset give the end of the very step that wrote it."""
    samples = noise(3, 2.0)
    written: list[int] = []

    class Watched(ReferenceRecognizer):
        def step(self, samples: Tensor, state: State) -> tuple[Tensor, State]:
            emitted, state = super().step(samples, state)
            steps.append(len(steps))
            written.extend(len(steps) for symbol in emitted[0, :, 0].tolist() if symbol >= 0)
            return emitted, state

    steps: list[int] = []
    characters = transcribe(Watched(online.recognizer), samples)
    offset = emission_offset(online.recognizer)
    late = [k for k, step in enumerate(written) if step > online.recognizer.delay_steps]
    assert late
    for k in late:
        assert characters[k].time + offset == pytest.approx(written[k] * STEP_SECONDS, abs=1e-3)


def test_the_ctc_head_hears_a_batch_as_it_hears_each_alone_flush_included(
    online: ReferenceRecognizer,
) -> None:
    recordings = [noise(1, 0.5), noise(2, 0.83)]
    together = ctc_log_probs(online.recognizer, recordings)
    for samples, found in zip(recordings, together, strict=True):
        [alone] = ctc_log_probs(online.recognizer, [samples])
        assert len(found) == -(-len(samples) // SAMPLES_PER_STEP) + FLUSH_STEPS
        torch.testing.assert_close(found, alone, atol=1e-4, rtol=1e-4)


def test_percentiles_are_in_milliseconds() -> None:
    found = summary([0.1 * k for k in range(11)], 0.08)
    assert found is not None
    assert (found.p50_ms, found.p90_ms, found.lookahead_ms, found.characters) == (500, 900, 80, 11)
    assert summary([], 0.08) is None


def test_the_letters_of_a_phone_end_with_it() -> None:
    phones = replace(MODEL, vocabulary=Vocabulary(phones=("sh", "iy")))
    online = untrained(phones)
    sh, iy = online.vocabulary.encode("sh iy")
    log_probs = path(online, [-1, -1, -1, sh, sh, -1, iy, -1])
    ends = character_ends(online.recognizer, log_probs, "sh iy")
    behind = online.recognizer.delay_steps
    first, last = (5 - behind) * STEP_SECONDS, (7 - behind) * STEP_SECONDS
    assert ends == pytest.approx([first, first, first, last, last])
    found = delays("sh iy", ends, heard("sh iy ", [1.0] * 3 + [2.0] * 3), 0.5, phones=True)
    assert found == pytest.approx([1.5 - first, 2.5 - last])
    assert np.isnan(character_ends(online.recognizer, log_probs, "she")).all()
