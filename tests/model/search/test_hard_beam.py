"""Algorithm 1 of Chiu & Raffel 2018 over whole utterances, against it symbol by symbol."""

from itertools import product

import pytest
import torch
from torch import Tensor

from cortado.model.attention.config import MONOTONIC, Kind
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.search.hard_beam import hard_beam_search
from cortado.model.search.offline import decode, scanned
from cortado.tests.model.search.test_offline import recognizer

LONGEST = 4  # symbols of the texts that are tried


def decoder_of(kind: Kind, seed: int) -> AttentionDecoder:
    decoder = recognizer(kind).decoder
    assert isinstance(decoder, AttentionDecoder)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.add_(0.6 * torch.randn_like(parameter))
        decoder.attention.monotonic.scale.fill_(8.0)
        decoder.attention.monotonic.bias.fill_(-3.0)
        decoder.attention.monotonic.query.weight.mul_(4)  # so that a symbol moves the next stop
        decoder.lstm.weight_hh.mul_(2)
    return decoder


def literal(decoder: AttentionDecoder, values: Tensor, text: tuple[int, ...]) -> float | None:
    """Return a text's log-probability by algorithm 1; None where the scan ends before or after."""
    attention = decoder.attention
    memory, total, at, first = decoder.beginning(1), 0.0, 0, 0
    for symbol in (*text, None):
        query = decoder.query(memory)
        while at < len(values):
            key = attention.scan_key(values[at : at + 1])
            if attention.energy(query, key) >= 0:
                break
            at += 1
        if at == len(values) or symbol is None:
            return total if at == len(values) and symbol is None else None
        start = max(first, at - attention.window + 1, 0)
        chunk = values[start : at + 1]
        valid = torch.ones(1, len(chunk), dtype=torch.bool)
        context = attention.context(query, attention.chunk_key(chunk)[None], chunk[None], valid)
        logits, output = decoder.write(context, memory)
        total += float(logits.log_softmax(1)[0, symbol])
        memory = decoder.read(torch.tensor([symbol]), output)
        if attention.window > 2:  # MAtChA, which looks back to the last stop
            first = at
    return None


def symbols(path: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in path)


@pytest.mark.parametrize("kind", MONOTONIC)
@torch.no_grad()
def test_a_wide_beam_finds_the_best_text_of_all(kind: Kind) -> None:
    texts = [text for n in range(LONGEST + 1) for text in product(range(2), repeat=n)]
    lengths, narrower = set(), 0
    for seed in range(12):
        decoder, values = decoder_of(kind, seed), 2 * torch.randn(6, 8)
        scores = {text: literal(decoder, values, text) for text in texts}
        possible = {text: score for text, score in scores.items() if score is not None}
        if not possible:
            continue
        best = max(possible, key=lambda text: possible[text])
        assert symbols(hard_beam_search(decoder, values, LONGEST, 64, 1e9)) == best
        lengths.add(len(best))
        narrower += symbols(hard_beam_search(decoder, values, LONGEST, 1)) != best
    assert len(lengths) > 1
    assert narrower


@pytest.mark.parametrize("kind", MONOTONIC)
@torch.no_grad()
def test_one_hypothesis_is_the_scan_without_a_bound_on_a_frame(kind: Kind) -> None:
    crowded = 0
    for seed in range(12):
        decoder, values = decoder_of(kind, seed), 2 * torch.randn(12, 8)
        capped = scanned(decoder, values[None], torch.tensor([12]))[0]
        decoder.cap = 25
        (free,) = scanned(decoder, values[None], torch.tensor([12]))
        found = hard_beam_search(decoder, values, 24, 1)
        assert list(found) == [tuple(one) for one in free][:24]
        crowded += len(free) > len(capped)
    assert crowded  # else the bound would make no difference


@torch.no_grad()
def test_what_is_far_behind_the_best_is_left_out() -> None:
    differ = 0
    for seed in range(20):
        decoder, values = decoder_of("mocha", seed), 2 * torch.randn(6, 8)
        wide, pruned = (hard_beam_search(decoder, values, 8, 64, nats) for nats in (1e9, 1e-6))
        assert pruned == hard_beam_search(decoder, values, 8, 1)
        differ += wide != pruned
    assert differ


def test_a_recogniser_decodes_so_with_the_width_that_it_names() -> None:
    model = recognizer()
    assert isinstance(model.decoder, AttentionDecoder)
    with torch.no_grad():
        model.decoder.attention.monotonic.bias.fill_(0.3)
        encoded, lengths = torch.randn(2, 9, 8), torch.tensor([9, 5])
        found = decode(model, encoded, lengths, "hard-beam")
        for row, length, each in zip(encoded, lengths.tolist(), found, strict=True):
            wanted = hard_beam_search(model.decoder, row[:length], 2 * length, 8)
            assert [tuple(one) for one in each] == list(wanted)
            assert all(one.frame < length for one in each)
    assert any(found)
