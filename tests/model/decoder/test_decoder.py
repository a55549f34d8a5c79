"""The decoder in training and in serving, against Algorithm 1 of Chiu & Raffel in plain loops."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.attention import AttentionConfig
from cortado.model.attention.energy import AdditiveEnergy
from cortado.model.config import DecoderConfig
from cortado.model.decoder.bahdanau import BahdanauDecoder

Doubles = NDArray[np.float64]

SYMBOLS, WIDTH, FRAMES = 7, 6, 24


# By chunk width: decoders whose states change enough with a symbol that they do not stop at one
# frame for ever, and that write more than a few.
SEEDS = {1: (9, 11, 13), 2: (3, 4, 11, 13), 4: (4, 11)}


class Written(NamedTuple):
    """A symbol as Algorithm 1 writes it."""

    frame: int  # where the attention stopped
    symbol: int
    logits: Doubles  # (V,)


def decoder(seed: int, chunk: int = 2, direct: bool = False) -> BahdanauDecoder:
    """A decoder that stops now and then, with energies that saturate p."""
    torch.manual_seed(seed)
    attention = AttentionConfig(9, chunk, -25_000.0)
    config = DecoderConfig(width=8, embedding=5, attention=attention, direct=direct)
    module = BahdanauDecoder(config, WIDTH, SYMBOLS).eval()
    with torch.no_grad():
        module.attention.monotonic.scale.fill_(60_000.0)
        module.attention.chunkwise.scale.fill_(3.0)
        module.attention.monotonic.query.weight.mul_(4)
        module.output.weight.mul_(5)
        module.lstm.weight_ih.mul_(2)
        module.lstm.weight_hh.mul_(12)
    return module.requires_grad_(False)


def frames(seed: int, streams: int = 1) -> Tensor:
    """(S, T, H) encoder frames."""
    return torch.randn(streams, FRAMES, WIDTH, generator=torch.Generator().manual_seed(seed))


def array(tensor: Tensor) -> Doubles:
    return tensor.double().numpy()


def energy(module: AdditiveEnergy, query: Doubles, value: Doubles) -> float:
    v = array(module.direction)
    hidden = array(module.query.weight) @ query + array(module.key.weight) @ value
    inner = np.tanh(hidden + array(module.key.bias))
    length = float(np.sqrt(v @ v))
    return module.scale.item() * float(v @ inner) / length + module.bias.item()


def algorithm_1(module: BahdanauDecoder, values: Doubles, cap: int) -> list[Written]:
    """Write the symbols of one stream's (T, H) frames, one frame and one symbol at a time."""

    def sigmoid(x: Doubles) -> Doubles:
        return 1 / (1 + np.exp(-x))

    lstm, attention = module.lstm, module.attention
    weight_in, weight_hidden = array(lstm.weight_ih), array(lstm.weight_hh)
    bias = array(lstm.bias_ih) + array(lstm.bias_hh)
    hidden = cell = np.zeros(lstm.hidden_size)
    symbol, written = module.start, list[Written]()
    for j in range(len(values)):
        for _ in range(cap):
            if energy(attention.monotonic, hidden, values[j]) < 0:  # p < 0.5: go on to the next
                break
            window = range(max(0, j - attention.window + 1), j + 1)
            chunk = [energy(attention.chunkwise, hidden, values[k]) for k in window]
            weights = np.exp(np.array(chunk) - max(chunk))
            weights /= weights.sum()
            context = np.zeros(values.shape[1])
            for weight, k in zip(weights, window, strict=True):
                context = context + weight * values[k]
            inputs = np.concatenate([array(module.embedding.weight)[symbol], context])
            i, f, g, o = np.split(weight_in @ inputs + weight_hidden @ hidden + bias, 4)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(cell)
            read = np.concatenate([hidden, context])[: module.output.in_features]
            logits = array(module.output.weight) @ read + array(module.output.bias)
            symbol = int(logits.argmax())
            written.append(Written(j, symbol, logits))
    return written


def online(module: BahdanauDecoder, values: Tensor, cap: int) -> Tensor:
    """(S, T, cap) symbols."""
    module.cap = cap
    return module(values)


def stops(written: Tensor) -> list[tuple[int, int]]:
    """The (frame, symbol) of each symbol of one stream's (T, cap) steps."""
    return [(j, s) for j, row in enumerate(written.tolist()) for s in row if s >= 0]


@pytest.mark.parametrize("chunk", SEEDS)
@pytest.mark.parametrize("cap", [1, 2, 5])
def test_online_steps_are_algorithm_1(chunk: int, cap: int) -> None:
    written = list[Written]()
    for seed in SEEDS[chunk]:
        module, values = decoder(seed, chunk), frames(seed)
        oracle = algorithm_1(module, array(values[0]), cap)
        assert stops(online(module, values, cap)[0]) == [(one.frame, one.symbol) for one in oracle]
        written += oracle
    assert len({one.frame for one in written}) > 3
    assert len({one.symbol for one in written}) > 2


@pytest.mark.parametrize(("chunk", "seed"), [(w, seed) for w in SEEDS for seed in SEEDS[w]])
def test_a_saturated_teacher_forced_pass_is_the_online_decoding(chunk: int, seed: int) -> None:
    module, values = decoder(seed, chunk), frames(seed)
    oracle = algorithm_1(module, array(values[0]), 50)
    assert len(oracle) > 5
    assert stops(online(module, values, 50)[0]) == [(one.frame, one.symbol) for one in oracle]
    targets = torch.tensor([[one.symbol for one in oracle]])
    decoded = module.teacher_forced(values, torch.ones(values.shape[:2], dtype=torch.bool), targets)
    for row, one in enumerate(oracle):
        assert decoded.alpha[0, row].nonzero()[:, 0].tolist() == [one.frame]
        assert decoded.alpha[0, row, one.frame] == 1
        wanted = torch.from_numpy(one.logits).float()
        torch.testing.assert_close(decoded.logits[0, row], wanted, rtol=1e-3, atol=1e-3)
    assert not decoded.alpha[0, -1].any()  # the scan for one more symbol runs off the end


def test_a_direct_output_does_without_the_context() -> None:
    module, values = decoder(3, 2, direct=True), frames(3)
    assert module.output.in_features == module.lstm.hidden_size
    oracle = algorithm_1(module, array(values[0]), 50)
    assert len(oracle) > 3
    assert stops(online(module, values, 50)[0]) == [(one.frame, one.symbol) for one in oracle]
    targets = torch.tensor([[one.symbol for one in oracle]])
    decoded = module.teacher_forced(values, torch.ones(values.shape[:2], dtype=torch.bool), targets)
    wanted = torch.from_numpy(np.stack([one.logits for one in oracle])).float()
    torch.testing.assert_close(decoded.logits[0], wanted, rtol=1e-3, atol=1e-3)
    assert module.without_audio(targets).shape == decoded.logits.shape


@pytest.mark.parametrize("size", ["beam", "layers"])
def test_a_decoder_has_layers_and_its_beam_a_hypothesis(size: str) -> None:
    with pytest.raises(ValueError, match=f"expected a {size} of 1 to 16384, got 0"):
        DecoderConfig(**{size: 0})  # type: ignore[arg-type]


def test_a_text_of_nothing_is_the_scan_for_one_symbol() -> None:
    values, mask = frames(0, 2), torch.ones(2, FRAMES, dtype=torch.bool)
    decoded = decoder(0).teacher_forced(values, mask, torch.zeros(2, 0, dtype=torch.long))
    assert decoded.logits.shape == (2, 0, SYMBOLS)
    assert decoded.energies is not None
    assert decoded.alpha.shape == decoded.energies.shape == (2, 1, FRAMES)


def test_what_is_not_written_is_padded_behind_what_is() -> None:
    for seed in range(4):
        written = online(decoder(seed), frames(seed, 5), 4)
        assert ((written >= -1) & (written < SYMBOLS)).all()
        assert ((written[..., :-1] >= 0) | (written[..., 1:] == -1)).all()
