"""Decoding of whole utterances: modes, times, beams, and the attention to a known text."""

from dataclasses import replace
from itertools import product
from math import exp, log, log1p
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cortado.model.attention import AttentionConfig
from cortado.model.attention.config import Kind
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.recognizer import Recognizer
from cortado.model.search.expected_beam import Path, beam_search, outcomes
from cortado.model.search.offline import (
    Mode,
    decode,
    expected,
    flushed,
    modes,
    scanned,
    teacher_forced,
    transcribe_batch,
    transcribe_offline,
)
from cortado.model.streaming.recordings import transcribe
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.untrained import noise, untrained

SMALL = EncoderConfig(channels=2, width=8, layers=1)


def recognizer(
    kind: Kind = "mocha", decoder: Any = "bahdanau", characters: str = "ab"
) -> Recognizer:
    torch.manual_seed(0)
    built = DecoderConfig(8, 4, AttentionConfig(8, 2, 0.0, kind), decoder)
    return Recognizer(RecognizerConfig(Vocabulary(characters), SMALL, built)).eval()


def test_hard_decoding_is_what_a_stream_writes() -> None:
    online = untrained()
    samples = noise(3, 3.0)
    streamed = transcribe(online, samples)
    assert len({character.text for character in streamed}) > 3
    assert transcribe_offline(online.recognizer, samples, "hard") == streamed


@pytest.mark.parametrize("mode", ["hard", "expected"])
def test_recordings_decode_together_as_they_do_alone(mode: Mode) -> None:
    model = untrained().recognizer
    recordings = [noise(3, 1.7), noise(4, 0.5), noise(5, 1.1)]
    alone = [transcribe_offline(model, samples, mode) for samples in recordings]
    assert len(set(map(len, alone))) > 1
    assert transcribe_batch(model, recordings, mode) == alone


@pytest.mark.parametrize("kind", ["mocha", "monotonic", "matcha", "soft", "ctc"])
def test_no_frames_give_no_symbols(kind: Any) -> None:
    model = recognizer(decoder="ctc") if kind == "ctc" else recognizer(kind)
    with torch.inference_mode():
        some = model.encode(torch.randn(2, 6400))
        none = model.encode(torch.randn(2, 639))
    assert none.shape == (2, 0, 8)
    for mode in modes(model):
        stops = torch.Generator() if mode == "sampled" else None
        found = decode(model, some, torch.tensor([0, some.shape[1]]), mode, stops)
        assert found[0] == []
        assert decode(model, none, torch.tensor([0, 0]), mode, stops) == [[], []]


def test_modes_are_those_that_the_decoder_has() -> None:
    every = ("hard", "uncapped", "hard-beam", "expected", "sampled", "beam")
    assert modes(recognizer()) == every
    assert modes(recognizer("soft")) == ("expected", "beam")
    assert modes(recognizer(decoder="ctc")) == ("hard",)


@pytest.mark.parametrize(
    ("model", "mode", "seeded", "message"),
    [
        (recognizer("soft"), "hard", False, "expected a mode among expected, beam, got 'hard'"),
        (recognizer(decoder="ctc"), "beam", False, "expected a mode among hard, got 'beam'"),
        (recognizer(), "sampled", False, "expected a generator for the mode 'sampled' alone, got"),
        (recognizer(), "hard", True, "expected a generator for the mode 'sampled' alone, got"),
        (recognizer().train(), "hard", False, "expected a recogniser in evaluation mode, got"),
    ],
)
def test_what_a_recogniser_cannot_do_is_said(
    model: Recognizer, mode: Mode, seeded: bool, message: str
) -> None:
    generator = torch.Generator() if seeded else None
    with pytest.raises(ValueError, match=message):
        decode(model, torch.randn(1, 5, 8), torch.tensor([5]), mode, generator)


def test_samples_that_are_none_are_refused_and_floats_of_any_kind_are_heard() -> None:
    samples = noise(1, 0.2)
    expected = flushed(samples)
    torch.testing.assert_close(flushed(samples[::-1][::-1].astype(float)), expected)
    for wrong in ((samples * 32767).astype(np.int16), samples[None], samples * 32767):
        with pytest.raises(ValueError, match=r"expected samples \(N,\) as floats in \[-1, 1\)"):
            flushed(wrong)  # type: ignore[arg-type]
    assert transcribe_batch(recognizer(), [], "hard") == []


def test_ctc_streams_its_greedy_path_without_repeats_and_blanks() -> None:
    model = recognizer(decoder="ctc", characters="abc")
    with torch.no_grad():
        model.ctc.weight.mul_(20)
        model.ctc.bias.zero_()
    encoded = torch.randn(3, 60, 8)
    lengths = torch.tensor([60, 31, 60])
    found = decode(model, encoded, lengths, "hard")
    for row, length, symbols in zip(encoded, lengths.tolist(), found, strict=True):
        best = model.ctc(row[:length]).argmax(1)
        wanted = [s for s in best.unique_consecutive().tolist() if s != 3]
        assert [one.symbol for one in symbols] == wanted
        assert all(best[one.frame] == one.symbol for one in symbols)
        assert len(wanted) > 10


def test_a_recogniser_of_ctc_alone_transcribes_streams() -> None:
    model = recognizer(decoder="ctc")
    with torch.no_grad():
        model.ctc.bias[2] = -1.0
    samples = noise(1, 1.0)
    written = transcribe(ReferenceRecognizer(model), samples)
    assert written
    assert [one.text for one in transcribe_offline(model, samples, "hard")] == [
        one.text for one in written
    ]


@pytest.mark.parametrize("kind", ["mocha", "soft"])
def test_expected_decoding_does_not_feel_its_neighbours(kind: Kind) -> None:
    model = recognizer(kind, "luong", "abcd")
    sharpened(model.decoder)
    encoded, lengths = torch.randn(4, 12, 8), torch.tensor([12, 7, 12, 3])
    together = decode(model, encoded, lengths, "expected")
    for row, length, symbols in zip(encoded, lengths.tolist(), together, strict=True):
        alone = decode(model, row[None, :length], torch.tensor([length]), "expected")
        assert alone[0] == symbols
    assert any(together)


def sharpened(decoder: Any) -> None:
    """Let the next symbol depend much on the last and on the context."""
    with torch.no_grad():
        decoder.output.weight.mul_(4)
        decoder.lstm.weight_ih.mul_(3)


def score(decoder: AttentionDecoder, values: Tensor, text: tuple[int, ...]) -> float:
    """The logarithm of a text's probability, the end included."""
    mask = torch.ones(1, len(values), dtype=torch.bool)
    decoded = decoder.teacher_forced(
        values[None], mask, torch.tensor([text], dtype=torch.long).view(1, -1)
    )
    log_probs = decoded.logits[0].log_softmax(1)
    total = sum(float(log_probs[row, symbol]) for row, symbol in enumerate(text))
    if not decoder.online:
        return total + float(log_probs[len(text), decoder.end])
    mass = [1.0, *decoded.alpha[0].double().sum(1).tolist()]  # of scans that have all stopped
    return total + log(max(mass[-2] - mass[-1], 1e-300))


@torch.no_grad()
def test_the_probability_of_the_end_is_not_what_rounding_leaves_of_a_sum() -> None:
    decoder = recognizer("monotonic").decoder
    assert isinstance(decoder, AttentionDecoder)
    energy = decoder.attention.monotonic
    energy.query.weight.zero_()
    energy.scale.zero_()
    energy.bias.fill_(6.0)
    values, mask = torch.randn(1, 40, 8), torch.ones(1, 40, dtype=torch.bool)
    past = decoder.attention.first(mask)
    attended = decoder.attention.attend(
        decoder.query(decoder.beginning(1)), decoder.attention.keys(values, mask), past
    )
    going, ending = outcomes(decoder, torch.zeros(1, 2), attended, past)
    assert ending.item() == pytest.approx(-40 * log1p(exp(6)), rel=1e-5)  # log(1 - p) a frame
    assert going[0].tolist() == pytest.approx([-log(2)] * 2)


@pytest.mark.parametrize("kind", ["mocha", "soft"])
@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_a_wide_beam_finds_the_best_of_all_texts(kind: Kind, order: str) -> None:
    lengths = set()
    for seed in range(5):
        model = recognizer(kind, order)
        decoder = model.decoder
        assert isinstance(decoder, AttentionDecoder)
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in decoder.parameters():
                parameter.add_(0.6 * torch.randn_like(parameter))
            if not decoder.online:
                decoder.output.bias[decoder.end] = -2.0
            values = 2 * torch.randn(6, 8)
            texts = [text for count in range(5) for text in product(range(2), repeat=count)]
            best = max(texts, key=lambda text: score(decoder, values, text))
            found = tuple(symbol for symbol, _ in beam_search(decoder, values, 4, 64, 1e9))
            lengths.add(len(found))
            assert found == best
    assert len(lengths) > 1


@pytest.mark.parametrize("kind", ["mocha", "matcha", "soft"])
def test_a_beam_is_no_worse_than_the_best_symbol_after_symbol(kind: Kind) -> None:
    model = recognizer(kind, "luong", "abcd")
    sharpened(model.decoder)
    decoder = model.decoder
    assert isinstance(decoder, AttentionDecoder)
    values = torch.randn(10, 8)
    with torch.no_grad():
        narrow = beam_search(decoder, values, 8, 8)
        (greedy,) = expected(
            decoder, values[None], torch.ones(1, 10, dtype=torch.bool), torch.tensor([8])
        )
        texts = [tuple(symbol for symbol, _ in path) for path in (narrow, greedy)]
        assert score(decoder, values, texts[0]) >= score(decoder, values, texts[1]) - 1e-4


def test_a_beam_is_as_wide_as_the_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []

    def noted(decoder: AttentionDecoder, values: Tensor, limit: int, width: int) -> Path:
        widths.append(width)
        return beam_search(decoder, values, limit, width)

    monkeypatch.setattr("cortado.model.search.offline.beam_search", noted)
    usual = recognizer()
    wide = replace(usual.config, decoder=replace(usual.config.decoder, beam=10))
    for config in (usual.config, wide):
        decode(Recognizer(config).eval(), torch.randn(1, 5, 8), torch.tensor([5]), "beam")
    assert widths == [8, 10]


@pytest.mark.parametrize("kind", ["mocha", "matcha", "soft", "local-p"])
def test_teacher_forcing_gives_the_attention_to_each_symbol(kind: Kind) -> None:
    model, samples = recognizer(kind, "luong"), noise(2, 1.0)
    found = teacher_forced(model, samples, "abba")
    frames = model.encode(flushed(samples).unsqueeze(0)).shape[1]
    assert found.alpha.shape == found.weights.shape == (4, frames)
    assert (found.weights.sum(1) <= 1 + 1e-5).all()


def test_ctc_alone_has_no_attention_to_show() -> None:
    with pytest.raises(ValueError, match="expected a decoder with an LSTM, got the CTC head alone"):
        teacher_forced(recognizer(decoder="ctc"), noise(2, 0.5), "ab")


def test_the_scan_gives_no_symbol_behind_an_utterance_s_end() -> None:
    model = recognizer()
    with torch.no_grad():
        model.decoder.attention.monotonic.bias.fill_(50.0)
    found = scanned(model.decoder, torch.randn(2, 9, 8), torch.tensor([4, 9]))
    assert [len(one) for one in found] == [8, 18]
    assert found[0][-1].frame == 3
