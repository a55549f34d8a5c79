"""Losses against literal loops, on ordinary and on impossible utterances."""

from dataclasses import replace
from itertools import pairwise
from math import exp, log

import pytest
import torch
from torch import Tensor

from cortado.model.emission import FLUSH_STEPS
from cortado.tests.training.tiny import fresh, noise_batch
from cortado.training.data.batches import Batch
from cortado.training.learning.losses import (
    corrupted,
    ctc_alignment,
    divergence,
    guide_loss,
    losses,
    stop_loss,
)
from cortado.training.learning.stage import Stage

EVERYTHING = Stage(
    "all",
    1,
    ctc=0.3,
    attention=1.0,
    stop=0.3,
    quantity=0.2,
    noise=1.0,
    smoothing=0.1,
    neighbours=(0.015, 0.035, 0.035, 0.015),
)
BLANK = 28


def aligned(heard: Batch, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    log_probs = torch.randn(len(heard.lengths), int(heard.lengths.max()), BLANK + 1).log_softmax(2)
    return log_probs, *ctc_alignment(log_probs, heard)


@pytest.mark.parametrize("seed", range(3))
def test_an_alignment_is_a_path_of_rising_frames_within_the_utterance(seed: int) -> None:
    heard = noise_batch([[1, 2, 3, 4], [5, 5, 5], [7], []], [20, 12, 3, 5])
    _, times, has = aligned(heard, seed)
    assert has.tolist() == [True] * 4
    for b, (length, count) in enumerate(
        zip(heard.lengths.tolist(), heard.target_lengths.tolist(), strict=True)
    ):
        found, target = times[b, :count].tolist(), heard.targets[b, :count].tolist()
        assert found == sorted(set(found))
        assert all(0 <= time < length for time in found)
        for (one, other), (before, after) in zip(pairwise(found), pairwise(target), strict=True):
            assert other - one >= 1 + (before == after)  # a blank lies between repeats


def test_an_alignment_gives_the_last_frame_of_a_symbol() -> None:
    heard = noise_batch([[1, 2]], [1])
    path = [1, 1, 1, BLANK, 2, 2, BLANK, BLANK, BLANK]
    log_probs = torch.full((1, 9, BLANK + 1), -9.0)
    for frame, symbol in enumerate(path):
        log_probs[0, frame, symbol] = 0
    times, _ = ctc_alignment(log_probs, heard)
    assert times.tolist() == [[2, 5]]


def test_a_text_too_long_for_its_audio_has_no_alignment() -> None:
    frames = 1 + FLUSH_STEPS
    longest = list(range(1, frames + 1))
    heard = noise_batch([[1] * (frames // 2), longest, [*longest, 1]], [1, 1, 1])
    assert heard.lengths.tolist() == [frames] * 3
    assert aligned(heard)[2].tolist() == [True, True, False]


def test_the_stop_loss_is_that_of_a_literal_loop() -> None:
    heard = noise_batch([[1, 2, 3], [4], [5] * 8, []], [6, 4, 1, 2])
    _, times, has = aligned(heard)
    assert has.tolist() == [True, True, False, True]
    energies = torch.randn(4, 9, int(heard.lengths.max()))
    total = 0.0
    for b in range(4):
        if not has[b]:
            continue
        count, end = int(heard.target_lengths[b]), int(heard.lengths[b]) - 1
        start = 0
        for i in range(count + 1):
            stop = int(times[b, i]) if i < count else end
            for j in range(start, stop + 1):
                p = 1 / (1 + exp(-float(energies[b, i, j])))
                total -= log(p) if i < count and j == stop else log(1 - p)
            start = stop
    found = stop_loss(energies, times, has, heard)
    assert found.item() == pytest.approx(total / 12, rel=1e-4)


def test_the_stop_loss_falls_to_zero_on_the_alignment() -> None:
    heard = noise_batch([[1, 2, 3]], [6])
    _, times, has = aligned(heard)
    energies = torch.full((1, 4, int(heard.lengths[0])), -50.0)
    for row, frame in enumerate(times[0].tolist()):
        energies[0, row, frame] = 50
    assert stop_loss(energies, times, has, heard).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("texts", "steps"),
    [
        ([[1, 2, 3], [4]], [12, 5]),
        ([[], [1, 2]], [12, 5]),
        ([[], []], [3, 4]),
        ([[1] * 30], [1]),
        ([[1, 2], [3] * 30], [6, 1]),
    ],
    ids=["ordinary", "an empty text", "empty texts", "impossible", "one of two impossible"],
)
def test_losses_and_gradients_are_finite(texts: list[list[int]], steps: list[int]) -> None:
    model = fresh()
    parts = losses(model, noise_batch(texts, steps), EVERYTHING)
    assert list(parts) == ["ctc", "attention", "stop", "quantity", "total"]
    assert all(value.isfinite() for value in parts.values())
    parts["total"].backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_total_is_the_weighted_sum() -> None:
    model = fresh().eval()
    parts = losses(model, noise_batch([[1, 2, 3], [4]], [12, 5]), EVERYTHING)
    weighted = sum(getattr(EVERYTHING, name) * parts[name] for name in parts if name != "total")
    torch.testing.assert_close(parts["total"], weighted)


@pytest.mark.parametrize("consistency", [0.0, 0.2])
def test_the_encoder_s_stage_leaves_the_decoder_alone(consistency: float) -> None:
    model = fresh()
    stage = Stage("encoder", 1, ctc=1.0, consistency=consistency)
    parts = losses(model, noise_batch([[1, 2], [1, 2]], [8, 8]), stage)
    assert list(parts) == ["ctc", *["consistency"] * (consistency > 0), "total"]
    apart = parts.get("consistency", torch.zeros(()))
    torch.testing.assert_close(parts["total"], parts["ctc"] + consistency * apart)
    parts["total"].backward()
    assert all(p.grad is None for p in model.decoder.parameters())
    assert all(p.grad is not None for p in model.encoder.parameters())


def test_the_quantity_loss_counts_the_symbols_that_are_missing() -> None:
    model, heard = fresh(), noise_batch([[1, 2, 3], [4]], [12, 5])
    stage = replace(EVERYTHING, noise=0.0)
    with torch.no_grad():
        model.decoder.attention.monotonic.bias.fill_(-100)  # nothing is ever written
        assert losses(model, heard, stage)["quantity"].item() == pytest.approx(1)
        model.decoder.attention.monotonic.bias.fill_(100)  # every symbol is
        assert losses(model, heard, stage)["quantity"].item() == pytest.approx(0, abs=1e-4)


def test_symbols_beyond_a_text_s_end_count_nothing() -> None:
    model, stage = fresh().eval(), replace(EVERYTHING, noise=0.0)
    heard = noise_batch([[1, 2, 3], [4]], [12, 5])
    junk = heard.targets.clone()
    junk[1, 1:] = 9
    one, other = losses(model, heard, stage), losses(model, heard._replace(targets=junk), stage)
    for name in one:
        torch.testing.assert_close(one[name], other[name])


def test_corruption_replaces_its_share_of_symbols() -> None:
    torch.manual_seed(0)
    targets = torch.full((100, 100), 40)
    assert torch.equal(corrupted(targets, 0.0, 28), targets)
    found = corrupted(targets, 0.25, 28)
    changed = found[found != 40]
    assert len(changed) / 10_000 == pytest.approx(0.25, abs=0.02)
    assert changed.min() >= 0
    assert changed.max() < 28


def test_the_divergence_is_that_of_every_distribution_from_its_twin() -> None:
    torch.manual_seed(0)
    logits = torch.randn(4, 3, 5, requires_grad=True)  # two views of two
    valid = torch.tensor([[True, True, False], [True, False, False]]).repeat(2, 1)
    found = divergence(logits.log_softmax(2), valid)
    p = logits.detach().softmax(2)
    pairs = [(p[i, n], p[2 + i, n]) for i, n in ((0, 0), (0, 1), (1, 0))]
    both = sum((one - other) @ (one / other).log() for one, other in pairs)
    torch.testing.assert_close(found, both)
    (gradient,) = torch.autograd.grad(found, logits)
    torch.testing.assert_close(gradient[0, 0], p[0, 0] - p[2, 0])  # the teacher stands still
    assert not gradient[~valid].any()


def test_views_that_agree_are_not_apart() -> None:
    model = fresh().eval()
    one = noise_batch([[1, 2, 3], [4]], [12, 5])
    logmel, lengths, targets, counts = (torch.cat([x, x]) for x in one[:4])
    both = Batch(logmel, lengths, targets, counts)
    stage = replace(EVERYTHING, noise=0.0, consistency=0.5, corruption=0.5)
    parts = losses(model, both, stage)
    assert parts["consistency"].item() == pytest.approx(0, abs=1e-7)
    changed = torch.cat([one.logmel, one.logmel.flip(2)])
    apart = losses(model, both._replace(logmel=changed), stage)
    assert apart["consistency"].item() > 1e-5
    weighted = sum(getattr(stage, name) * apart[name] for name in apart if name != "total")
    torch.testing.assert_close(apart["total"], weighted)


def test_the_guide_is_the_logarithm_of_what_is_near_the_alignment() -> None:
    weights = torch.zeros(2, 2, 10)
    weights[0, 0, [3, 5]] = 0.5  # both within two frames of 4
    weights[0, 1] = 0.1  # all frames alike: five are near 5
    weights[1, 0, 9] = 1.0  # near nothing, but the symbol is not known
    times = torch.tensor([[4, 5], [2, 0]])
    known = torch.tensor([[True, True], [False, False]])
    assert float(guide_loss(weights, times, known)) == pytest.approx(-log(0.5) / 2)
    assert float(guide_loss(weights, times, torch.zeros_like(known))) == 0.0
