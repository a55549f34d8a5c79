"""Decoders of several LSTMs, with a layer before the output, and with a given first state."""

from itertools import product
from typing import Literal

import pytest
import torch
from torch import Tensor

from cortado.model.attention import AttentionConfig
from cortado.model.attention.config import Kind
from cortado.model.config import DecoderConfig
from cortado.model.decoder.bahdanau import BahdanauDecoder
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.decoder.luong import LuongDecoder
from cortado.model.decoder.readout import Maxout
from cortado.model.encoder.lstm import LSTMState

Order = Literal["bahdanau", "luong"]
Readout = Literal["linear", "maxout", "mlp"]
ORDERS: tuple[Order, ...] = ("bahdanau", "luong")
READOUTS: tuple[Readout, ...] = ("linear", "maxout", "mlp")
DECODERS = {"bahdanau": BahdanauDecoder, "luong": LuongDecoder}
EVERY = list(product(ORDERS, READOUTS, (1, 3)))
SYMBOLS, WIDTH, FRAMES, STATE = 5, 6, 9, 8


def decoder(
    order: Order, readout: Readout, layers: int, kind: Kind = "mocha", text: bool = False
) -> AttentionDecoder:
    torch.manual_seed(0)
    attention = AttentionConfig(8, 2, 0.0, kind)
    config = DecoderConfig(STATE, 4, attention, order, layers=layers, readout=readout)
    return DECODERS[order](config, WIDTH, SYMBOLS, text=text).eval().requires_grad_(False)


def inputs(streams: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """(B, T, H) frames, their mask (B, T), and (B, U) symbols."""
    values = torch.randn(streams, FRAMES, WIDTH, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(streams, FRAMES, dtype=torch.bool)
    return values, mask, torch.randint(SYMBOLS, (streams, 4))


@pytest.mark.parametrize(("order", "readout", "layers"), EVERY)
@pytest.mark.parametrize("given", [False, True])
def test_a_teacher_forced_pass_is_symbol_after_symbol(
    order: Order, readout: Readout, layers: int, given: bool
) -> None:
    module, (values, mask, targets) = decoder(order, readout, layers, text=True), inputs()
    states = torch.randn(2, 2, layers * STATE)
    first = LSTMState(*states) if given else None
    decoded = module.teacher_forced(values, mask, targets, first=first)
    assert decoded.logits.shape == (2, 5, SYMBOLS + 1)  # the end of a text, monotonic or not
    keys, past = module.attention.keys(values, mask), module.attention.first(mask)
    memory = module.beginning(2, first)
    for row in range(5):
        attended = module.attention.attend(module.query(memory), keys, past)
        past = attended.memory
        logits, output = module.write(attended.context, memory)
        torch.testing.assert_close(decoded.logits[:, row], logits)
        memory = module.read(targets[:, min(row, 3)], output)
    plain = module.teacher_forced(values, mask, targets).logits
    assert torch.equal(plain, decoded.logits) != given


@pytest.mark.parametrize(("order", "readout", "layers"), EVERY)
def test_text_alone_is_a_pass_over_silence(order: Order, readout: Readout, layers: int) -> None:
    module, (values, mask, targets) = decoder(order, readout, layers, "none", True), inputs()
    decoded = module.teacher_forced(torch.zeros_like(values), mask, targets)
    torch.testing.assert_close(module.without_audio(targets), decoded.logits[:, :-1])


@pytest.mark.parametrize("order", ORDERS)
def test_some_classes_have_the_logits_that_they_have_among_all(order: Order) -> None:
    module, batch = decoder(order, "maxout", 2, "soft"), inputs()
    classes = torch.tensor([0, 3, SYMBOLS])
    some, every = (module.teacher_forced(*batch, classes=one).logits for one in (classes, None))
    torch.testing.assert_close(some, every[..., classes])


def test_maxout_is_the_larger_of_each_pair_of_units() -> None:
    module, x = Maxout(3, 2), torch.randn(4, 3)
    units = module.units(x)
    expected = torch.stack([units[:, :2].amax(1), units[:, 2:].amax(1)], 1)
    torch.testing.assert_close(module(x), expected)
