"""Every layer keeps the streaming contract, compiled and as it is defined; so does a chain."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention import AttentionConfig
from cortado.model.config import DecoderConfig, EncoderConfig, FeatureConfig, RecognizerConfig
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.encoder.conv_lstm import ConvLSTM
from cortado.model.encoder.convolution import Convolution
from cortado.model.encoder.dropout import Dropout
from cortado.model.encoder.encoder import Encoder
from cortado.model.encoder.lstm import LSTM
from cortado.model.encoder.lstm_encoder import Halving, LSTMEncoder
from cortado.model.encoder.recurrent import RecurrentLayer
from cortado.model.features.framing import (
    FRAMES_PER_STEP,
    HOP,
    MELS,
    MEMORY_FRAMES,
    PRIOR_FRAMES,
    SAMPLES_PER_STEP,
)
from cortado.model.features.log_mel import Features, LogMel, Normalizer
from cortado.model.layer import Layer, Serial
from cortado.model.operation import plain
from cortado.model.recognizer import Recognizer
from cortado.tests.model.contract import close, randomised, verify_chunks, verify_contract

SMALL = EncoderConfig(channels=3, width=6, layers=2)
cuts = st.lists(st.integers(1, 6), min_size=1, max_size=6)
few = settings(max_examples=3)


def normalizer(kind: str = "running") -> Normalizer:
    module = Normalizer(kind)
    module.mean.normal_(-5, 1)
    module.deviation.uniform_(1, 3)
    return module


def features() -> Features:
    module = Features()
    module.normalizer = normalizer()
    return module


def recognizer(decoder: DecoderConfig) -> Recognizer:
    """A small one that writes different symbols for different audio."""
    module = randomised(Recognizer(RecognizerConfig(encoder=SMALL, decoder=decoder)))
    module.features.normalizer = normalizer()
    with torch.no_grad():
        if isinstance(module.decoder, AttentionDecoder):
            module.decoder.attention.monotonic.scale.fill_(20)
            module.decoder.output.weight.mul_(20)
        module.ctc.weight.mul_(20)
    return module


def decoder(kind: str) -> Layer:
    module = recognizer(decoder_config(kind)).decoder
    module.cap = 3
    return module


def decoder_config(kind: str) -> DecoderConfig:
    if kind == "ctc":
        return DecoderConfig(kind="ctc")
    if kind == "stacked":
        return replace(decoder_config("mocha"), layers=3, readout="maxout")
    attention = AttentionConfig(8, bias=0.0, kind=kind, span=4)  # type: ignore[arg-type]
    return DecoderConfig(8, 4, attention, "luong" if kind == "matcha" else "bahdanau")


LAYERS: dict[str, tuple[Callable[[], Layer], tuple[int, ...]]] = {  # and the shape of an input
    "convolution": (lambda: Convolution(2, 3, 1, 6), (3, 12, 6, 2)),
    "convolution with a stride": (lambda: Convolution(2, 3, 2, 6), (3, 12, 6, 2)),
    "conv-LSTM": (lambda: ConvLSTM(2, 3, 5), (3, 14, 5, 2)),
    "LSTM": (lambda: LSTM(4, 5), (3, 9, 4)),
    "recurrent": (lambda: RecurrentLayer(4, 5), (3, 9, 4)),
    "dropout": (lambda: Dropout(0.5), (2, 5, 3)),
    "halving": (Halving, (2, 8, 3)),
    "log-mel": (LogMel, (3, 10 * HOP)),
    "normalizer": (normalizer, (3, 24, MELS)),
    "fixed normalizer": (lambda: normalizer("fixed"), (3, 14, MELS)),
    "features": (features, (3, 24 * HOP)),
    "encoder": (lambda: Encoder(SMALL), (3, 8 * FRAMES_PER_STEP, MELS, 3)),
    "encoder without a third convolution": (
        lambda: Encoder(replace(SMALL, third=False)),
        (3, 8 * FRAMES_PER_STEP, MELS, 3),
    ),
    "LSTM encoder": (
        lambda: LSTMEncoder(EncoderConfig(width=6, layers=3, kind="lstm"), 5),
        (3, 8 * FRAMES_PER_STEP, 5, 3),
    ),
    "features and encoder": (
        lambda: Serial(features(), Encoder(SMALL)),
        (3, 8 * SAMPLES_PER_STEP),
    ),
    **{
        f"{kind} decoder": (lambda kind=kind: decoder(kind), (3, 12, 6))  # type: ignore[misc]
        for kind in ("mocha", "monotonic", "matcha", "stacked", "ctc")
    },
    **{
        f"{kind} recogniser": (
            lambda kind=kind: recognizer(decoder_config(kind)),  # type: ignore[misc]
            (3, 8 * SAMPLES_PER_STEP),
        )
        for kind in ("mocha", "ctc")
    },
}


@pytest.fixture(params=["compiled", "plain"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled":
        yield
    else:
        with plain():
            yield


def prepared(name: str) -> tuple[Layer, Tensor]:
    """Return a layer and input for it, the same each time."""
    torch.manual_seed(0)
    made, shape = LAYERS[name]
    layer = randomised(made())
    x = torch.randn(shape)
    return layer, 0.1 * x if "log-mel" in name or len(shape) == 2 else x


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_the_contract(name: str) -> None:
    verify_contract(*prepared(name))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", LAYERS)
@given(cuts=cuts)
@few
def test_a_layer_streams(name: str, cuts: list[int]) -> None:
    verify_chunks(*prepared(name), cuts)


@pytest.mark.usefixtures("kernels")
@given(cuts=st.lists(st.integers(1, 700), min_size=1, max_size=4))
@settings(max_examples=2)
def test_the_normaliser_streams_beyond_its_memory(cuts: list[int]) -> None:
    torch.manual_seed(0)
    frames = MEMORY_FRAMES - PRIOR_FRAMES + 60
    x = torch.randn(2, frames, MELS) + torch.linspace(-8, 0, frames).unsqueeze(1)
    x[1, frames // 2 :] -= 12  # a drop, behind which the mean begins anew
    verify_contract(normalizer(), x)
    verify_chunks(normalizer(), x, cuts)


@pytest.mark.parametrize("kind", ["mocha", "monotonic", "matcha", "stacked", "ctc"])
def test_what_a_decoder_writes_depends_on_what_it_hears(kind: str) -> None:
    torch.manual_seed(0)
    written = decoder(kind)(torch.randn(3, 12, 6))
    assert len({str(row.tolist()) for row in written}) == 3
    assert (written >= 0).any()


def test_a_chain_derives_its_geometry() -> None:
    chain = Serial(Halving(), Convolution(1, 1, 2, 4), Convolution(1, 1, 1, 2))
    assert (chain.ratio, chain.lookahead) == (4, 1 + 2 + 4)
    model = Recognizer(RecognizerConfig(encoder=SMALL))
    assert (model.ratio, model.lookahead_ms, model.delay_steps) == (SAMPLES_PER_STEP, 110, 2)
    raffel = Recognizer(RecognizerConfig(encoder=replace(SMALL, third=False)))
    assert model.lookahead_ms - raffel.lookahead_ms == 40
    timit = EncoderConfig(width=6, layers=3, kind="lstm")
    bands = FeatureConfig(mels=40, energy=True, normalisation="fixed")
    whole = Recognizer(RecognizerConfig(encoder=timit, features=bands))
    assert (whole.lookahead_ms, whole.delay_steps) == (70, 1)


def test_nothing_but_whole_blocks_gives_output() -> None:
    assert LogMel()(torch.zeros(2, 2 * HOP + HOP - 1)).shape == (2, 2, MELS)


def test_log_mel_frames_encode_as_their_samples_do() -> None:
    torch.manual_seed(0)
    module = recognizer(DecoderConfig(8, 4))
    samples: Tensor = 0.1 * torch.randn(2, 8 * SAMPLES_PER_STEP)
    close(module.encode_logmel(module.features.logmel(samples)), module.encode(samples))
