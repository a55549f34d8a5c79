"""The copy distribution: against loops in float64, its gradients too, and what it copies."""

from math import exp, log

import pytest
import torch
from torch import Tensor

from cortado.model.attention.config import AttentionConfig, Kind
from cortado.tests.training.text.text_models import KINDS, WORDS, model, recipe
from cortado.training.text.batches import collate
from cortado.training.text.copying import coverage_loss, mixture
from cortado.training.text.loss import loss
from cortado.training.text.readers import Pair
from cortado.training.text.recipe import Training

BATCH, STEPS, FRAMES, SYMBOLS, EXTRA = 2, 3, 4, 5, 2
SIZE = SYMBOLS + 1 + EXTRA


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    """(B, U, V + 2) logits, (B, U, T) weights of at most 1 in all, and (B, T) copies."""
    torch.manual_seed(0)
    logits = torch.randn(BATCH, STEPS, SYMBOLS + 2, dtype=torch.float64, requires_grad=True)
    shares = torch.rand(BATCH, STEPS, FRAMES + 1, dtype=torch.float64)
    weights = (shares / shares.sum(2, keepdim=True))[..., :FRAMES].clone().requires_grad_()
    copies = torch.tensor([[1, SYMBOLS + 1, 1, SYMBOLS + 2], [0, 0, 4, SYMBOLS + 1]])
    return logits, weights, copies


def loops(logits: list[float], weights: list[float], copies: list[int]) -> list[float]:
    """The log-probabilities of one symbol, entry by entry."""
    gate = 1 / (1 + exp(-logits[-1]))
    whole = sum(exp(one) for one in logits[:-1])
    written = gate + (1 - gate) * (1 - sum(weights))
    found = [written * exp(one) / whole for one in logits[:-1]] + [0.0] * EXTRA
    for weight, word in zip(weights, copies, strict=True):
        found[word] += (1 - gate) * weight
    return [log(max(one, 1e-12)) for one in found]


def test_it_is_the_papers_mixture_and_sums_to_one() -> None:
    logits, weights, copies = inputs()
    found = mixture(logits[..., :-1], logits[..., -1:], weights, copies, SIZE)
    for b in range(BATCH):
        for u in range(STEPS):
            row = loops(logits[b, u].tolist(), weights[b, u].tolist(), copies[b].tolist())
            assert found[b, u].tolist() == pytest.approx(row, rel=1e-12)
    reached = found.exp().where(found > log(2e-12), 0)
    torch.testing.assert_close(reached.sum(2), torch.ones(BATCH, STEPS, dtype=torch.float64))


def test_its_gradients_are_differences_of_the_loops() -> None:
    logits, weights, copies = inputs()
    wanted = torch.tensor([[1, SYMBOLS + 2, SYMBOLS], [0, 3, SYMBOLS + 1]])
    mixture(logits[..., :-1], logits[..., -1:], weights, copies, SIZE).gather(
        2, wanted.unsqueeze(2)
    ).sum().backward()

    def total(changed: Tensor, others: Tensor, of_logits: bool) -> float:
        pair = (changed, others) if of_logits else (others, changed)
        one, other = (part.tolist() for part in pair)
        return sum(
            loops(one[b][u], other[b][u], copies[b].tolist())[int(wanted[b, u])]
            for b in range(BATCH)
            for u in range(STEPS)
        )

    step = 1e-6
    for tensor, others, of_logits in ((logits, weights, True), (weights, logits, False)):
        assert tensor.grad is not None
        values, found = tensor.detach(), []
        for place in range(values.numel()):
            unit = torch.zeros(values.numel(), dtype=torch.float64)
            unit[place] = step
            moved = unit.view_as(values)
            change = total(values + moved, others, of_logits)
            change -= total(values - moved, others, of_logits)
            found.append(change / (2 * step))
        torch.testing.assert_close(
            tensor.grad.flatten(), torch.tensor(found, dtype=torch.float64), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_that_the_vocabulary_lacks_is_likely_where_it_is_attended(kind: Kind) -> None:
    built = model(recipe(AttentionConfig(8, kind=kind), copies=True))
    with torch.no_grad():
        built.decoder.output.bias[-1] = -20.0  # the gate: copy
        if built.decoder.online:
            built.decoder.attention.monotonic.bias.fill_(20.0)
    pair = Pair(("strange",), ("strange",))
    batch = collate([pair], WORDS, True)
    assert batch.extra == (("strange",),)
    assert batch.wanted.tolist() == [[len(WORDS.target) + 1]]
    assert batch.target.tolist() == [[0]]  # what is read is the unknown word
    with torch.inference_mode():
        one = loss(built, batch, Training(1))
    assert one.nats.item() == pytest.approx(-log(1e-12), rel=0.05)  # of the end, never copied


@torch.inference_mode()
def test_the_gate_reads_the_word_before() -> None:
    built = model(recipe(AttentionConfig(8), copies=True))
    assert built.gate is not None
    pulled = built.decoder.embedding.weight[2]
    built.gate.weight.copy_(100 * pulled / pulled.norm())  # the word 2 before writes, others copy
    logits, weights = torch.zeros(1, 2, len(WORDS.target) + 2), torch.ones(1, 2, 1)
    copies, previous = torch.tensor([[5]]), torch.tensor([[2, 3]])
    written, copied = built.log_probs(logits, previous, weights, copies, 0)[0, :, 5].exp().tolist()
    assert written < 0.5 < copied


def test_coverage_counts_what_was_attended_before() -> None:
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.2, 0.0, 0.8], [0.9, 0.1, 0.0]]])
    expected = torch.tensor([[0.0, 0.2, 0.7 + 0.1]])
    torch.testing.assert_close(coverage_loss(weights), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_coverage_changes_what_is_learnt_and_leaves_the_words_loss(kind: Kind) -> None:
    built = model(recipe(AttentionConfig(8, kind=kind), copies=True))
    batch = collate([Pair(tuple("abc"), tuple("cab"))], WORDS, True)
    plain, covered = (loss(built, batch, Training(1, coverage=share)) for share in (0.0, 1.0))
    assert covered.nats.item() == plain.nats.item() == plain.total.item()
    assert covered.total.item() > plain.total.item()
