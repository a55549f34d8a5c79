"""Training in plain tensor code, as a GPU runs it, against the compiled kernels of the CPU."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from cortado.model.attention.config import MONOTONIC, AttentionConfig, Kind
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.operation import plain
from cortado.model.recognizer import Recognizer
from cortado.tests import needs
from cortado.tests.training.tiny import MODEL, noise_batch, recipe
from cortado.training.data.batches import Batch
from cortado.training.data.log_mel_cache import cached
from cortado.training.data.tied_states import States
from cortado.training.learning import device as devices
from cortado.training.learning import losses as objective
from cortado.training.learning.device import device_of, mixed_precision, to_device
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.snapshot import snapshots
from cortado.training.learning.stage import Stage
from cortado.training.learning.trainer import Trainer

LSTMS = EncoderConfig(width=8, layers=2, kind="lstm")
MODELS: dict[str, RecognizerConfig] = {
    **{
        kind: replace(MODEL, decoder=DecoderConfig(8, 4, AttentionConfig(8, kind=kind)))
        for kind in get_args(Kind)
    },
    "luong": replace(MODEL, decoder=DecoderConfig(8, 4, AttentionConfig(8), "luong")),
    "ctc": replace(MODEL, decoder=DecoderConfig(kind="ctc")),
    "lstm encoder": replace(MODEL, encoder=LSTMS),
    "direct": replace(MODEL, decoder=DecoderConfig(8, 4, AttentionConfig(8), direct=True)),
}
STAGE = Stage(
    "all",
    4,
    ctc=0.3,
    attention=1.0,
    stop=0.3,
    quantity=0.1,
    guide=0.1,
    neighbours=(0.05, 0.05),
    dropout=0.1,
)
every = pytest.mark.parametrize("name", MODELS)
paths = pytest.mark.parametrize("path", ["plain", pytest.param("cuda", marks=needs.gpu)])


@contextmanager
def on(path: str) -> Iterator[str]:
    """Give the device of a path; in plain code, what forgets its device lands on none.

    A GPU rounds as the CPU does: cuDNN's LSTMs are otherwise rounded to ten bits.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.backends.cudnn.flags(allow_tf32=False))
        if path == "plain":
            stack.enter_context(plain())
            stack.enter_context(torch.device("meta"))
        yield "cuda" if path == "cuda" else "cpu"


def batch() -> Batch:
    return noise_batch([[0, 1, 2, 2, 5], [3]], (19, 9))


def learnt(model: Recognizer, heard: Batch, stage: Stage) -> dict[str, Tensor]:
    """The losses by name and the gradients by weight."""
    model.zero_grad()
    parts = objective.losses(model, heard, stage)
    parts["total"].backward()
    gradients = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return {name: value.detach().cpu() for name, value in parts.items()} | gradients


@paths
@every
def test_losses_and_gradients_are_those_of_the_compiled_kernels(
    name: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "mixed_precision", lambda device: nullcontext())
    torch.manual_seed(0)
    model, heard = Recognizer(MODELS[name]), batch()
    wanted = learnt(model, heard, STAGE)
    with on(path) as device:
        place = torch.device(device)
        found = learnt(model.to(place), to_device(heard, place), STAGE)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        scale = float(value.abs().max())
        torch.testing.assert_close(found[key], value, rtol=1e-3, atol=1e-4 * scale + 1e-6)


@contextmanager
def trained(
    wanted: Recipe, output: Path, path: str, states: States | None = None
) -> Iterator[Trainer]:
    manifest = wanted.corpora[0].manifest
    heard = [cached(manifest, manifest.parent / "cache")]
    device = "cuda" if path == "cuda" else "cpu"
    trainer = Trainer(wanted, heard, output, () if states is None else (states,), device)
    rounded_as_here = torch.backends.cudnn.flags(allow_tf32=False)
    with rounded_as_here, plain() if path == "plain" else nullcontext():
        trainer.run(None)
        yield trainer


def whole(manifest: Path, name: str, **changes: Any) -> Recipe:
    """A run of a few updates with weight noise and dropout, but for `changes`."""
    model = MODELS[name]
    noisy: dict[str, Any] = {"weight_noise": 0.01, "dropout": 0.1}
    second = replace(recipe(manifest).stages[1], **noisy | changes)
    if model.decoder.attention.kind not in MONOTONIC:
        second = replace(second, stop=0.0, quantity=0.0, guide=0.1)
    stages = recipe(manifest).stages[0], second
    return replace(recipe(manifest), model=model, stages=stages)


@pytest.mark.parametrize(
    ("name", "path"),
    [("mocha", "plain"), ("soft", "plain")]
    + [pytest.param(name, "cuda", marks=needs.gpu) for name in MODELS],
)
def test_a_whole_run_ends_where_the_compiled_one_does(
    name: str, path: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "mixed_precision", lambda device: nullcontext())
    weights = []
    quiet = {"weight_noise": 0.0, "dropout": 0.0, "noise": 0.0, "corruption": 0.0}
    run = whole(manifest, name, **quiet if path == "cuda" else {})  # a GPU draws other numbers
    for way in ("compiled", path):
        with trained(run, tmp_path / way, way) as trainer:
            weights.append({k: v.cpu().float() for k, v in trainer.model.state_dict().items()})
    for key, value in weights[0].items():  # seven updates move a weight by up to 0.02
        torch.testing.assert_close(weights[1][key], value, rtol=1e-3, atol=1e-3)


@paths
def test_a_run_that_learns_states_is_resumed(path: str, manifest: Path, tmp_path: Path) -> None:
    tones = cached(manifest, manifest.parent / "cache")
    states = np.arange(sum(u.frames for u in tones.utterances), dtype=np.int16) // 10
    wanted = whole(manifest, "mocha", states=0.3)
    short = replace(wanted, stages=(replace(wanted.stages[0], states=0.3),))
    with trained(short, tmp_path, path, states):
        pass
    before = snapshots(tmp_path)[-1].name
    with trained(wanted, tmp_path, path, states) as trainer:
        assert trainer.step == 7
    assert snapshots(tmp_path)[-1].name > before


def test_a_device_that_is_not_there_is_named() -> None:
    assert device_of("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match=r"expected a device that PyTorch has here \(.*'tpu'"):
        device_of("tpu")
    if not torch.cuda.is_available():
        assert device_of(None).type == "cpu"
        with pytest.raises(ValueError, match="got 'cuda'"):
            device_of("cuda")


@pytest.mark.parametrize("faster", [True, False])
def test_products_are_in_bf16_where_that_is_faster(
    faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "bf16_is_faster", lambda: faster)
    with mixed_precision(torch.device("mps")):
        assert not torch.is_autocast_enabled("mps")
    with mixed_precision(torch.device("cpu")):
        assert torch.is_autocast_enabled("cpu") is faster
