"""Mechanisms learn a small task without an error, in the decoding that they are meant for."""

import pytest

from cortado.model.attention import AttentionConfig
from cortado.model.search.offline import modes
from cortado.tests.training.learning.transduction import Kind, learn, listener

A = AttentionConfig
MONOTONIC: dict[str, tuple[AttentionConfig, Kind]] = {
    "hard monotonic": (A(32, kind="monotonic"), "bahdanau"),
    "hard monotonic, general energy": (A(kind="monotonic", score="general"), "luong"),
    "MoChA of four, in Luong's order": (A(32, chunk=4), "luong"),
    "MAtChA": (A(32, kind="matcha"), "bahdanau"),
}
OFFLINE: dict[str, tuple[AttentionConfig, Kind]] = {
    "soft": (A(32, kind="soft"), "bahdanau"),
    "Luong's location": (A(kind="soft", score="location", positions=20), "luong"),
    "local-p": (A(32, kind="local-p", window=6), "luong"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MONOTONIC)
def test_monotonic_attention_learns_to_stop_where_it_should(name: str) -> None:
    model = listener(*MONOTONIC[name])
    assert modes(model)[0] == "hard"
    assert learn(model, "hard") == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFLINE)
def test_attention_to_whole_utterances_learns_when_to_end(name: str) -> None:
    model = listener(*OFFLINE[name])
    assert "hard" not in modes(model)
    assert learn(model, "expected") == 0


def test_the_ctc_head_learns_alone() -> None:
    model = listener(A(), "ctc")
    assert modes(model) == ("hard",)
    assert learn(model, "hard") == 0
