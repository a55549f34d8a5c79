"""Checkpoints there and back, and every way in which one can be broken."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from cortado.model import checkpoint
from cortado.model.attention import AttentionConfig
from cortado.model.checkpoint import load, save
from cortado.model.checkpoint_reader import CARD, WEIGHTS, CheckpointError, read_card
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.recognizer import Recognizer
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.contract import randomised

CONFIG = RecognizerConfig(
    Vocabulary("abc é"),
    EncoderConfig(channels=2, width=6, layers=2),
    DecoderConfig(6, 4, AttentionConfig(width=5, chunk=3, bias=-2.0)),
)


def recognizer() -> Recognizer:
    torch.manual_seed(0)
    module = Recognizer(CONFIG)
    module.features.normalizer.mean.normal_()
    randomised(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    save(recognizer(), path, {"steps": 7})
    return path


def test_a_checkpoint_there_and_back_is_the_same_recogniser(folder: Path) -> None:
    saved, loaded = recognizer(), load(str(folder))
    assert not loaded.training
    assert loaded.config == CONFIG
    wanted, found = saved.state_dict(), loaded.state_dict()
    assert list(found) == list(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    samples = 0.1 * torch.randn(1, 6400)
    assert torch.equal(saved.encode(samples), loaded.encode(samples))


def test_the_card_says_what_the_model_is_and_how_it_was_trained(folder: Path) -> None:
    card = read_card(folder)
    assert card["card"] == {"steps": 7}
    assert (card["sample_rate"], card["lookahead_ms"]) == (16_000, 110)
    assert card["parameters"] == sum(p.numel() for p in recognizer().parameters())
    assert "é" in (folder / CARD).read_text(encoding="utf-8")  # for people to read


def test_a_checkpoint_of_16_bits_keeps_matrices_in_16(tmp_path: Path) -> None:
    save(recognizer(), tmp_path, bits=16)
    loaded, wanted = load(tmp_path).state_dict(), recognizer().state_dict()
    for name, tensor in loaded.items():
        assert tensor.dtype == wanted[name].dtype
        exact = wanted[name].dim() < 2
        assert torch.equal(
            tensor, wanted[name] if exact else wanted[name].half().to(wanted[name].dtype)
        )


def test_a_checkpoint_of_8_bits_keeps_each_row_of_a_large_matrix_in_127_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LARGE", 64)
    save(recognizer(), tmp_path, bits=8)
    loaded, wanted = load(tmp_path).state_dict(), recognizer().state_dict()
    kept = load_file(tmp_path / WEIGHTS)
    assert {tensor.dtype for tensor in kept.values()} >= {torch.int8, torch.float16}
    for name, tensor in wanted.items():
        assert loaded[name].dtype == tensor.dtype
        if kept[name].dtype == torch.int8:
            off = (loaded[name] - tensor).abs() / tensor.abs().amax(1, keepdim=True)
            assert off.max() <= 0.501 / 127


def test_weights_in_bfloat16_are_read(folder: Path) -> None:
    path = folder / WEIGHTS
    halves = {
        name: tensor.bfloat16() if tensor.is_floating_point() else tensor
        for name, tensor in load_file(path).items()
    }
    save_file(halves, path)
    loaded = load(folder)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    torch.testing.assert_close(loaded.ctc.weight, recognizer().ctc.weight, rtol=0.01, atol=0.01)


def card(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """A change of the JSON."""

    def apply(folder: Path) -> None:
        path = folder / CARD
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content))

    return apply


def text(content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / CARD).write_text(content)


def weights(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """A change of the tensors."""

    def apply(folder: Path) -> None:
        path = folder / WEIGHTS
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return apply


def cut(name: str, share: float) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(share * len(content))])

    return apply


def deeper(*keys: str, value: Any) -> Callable[[Path], object]:
    """A change of one value of the JSON."""

    def change(content: dict[str, Any]) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return card(change)


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no card": (lambda f: (f / CARD).unlink(), "got no model.json"),
    "empty card": (text(""), "expected JSON in"),
    "half a card": (cut(CARD, 0.5), "expected JSON in"),
    "not text": (
        lambda f: (f / CARD).write_bytes(b"\xff\xfe\xff"),
        "expected JSON in",
    ),
    "too deep": (text("[" * 100_000), "expected JSON in"),
    "a list": (text("[]"), "expected format 1 in .* got list"),
    "another format": (deeper("format", value=2), "expected format 1 in .* got 2"),
    "no format": (card(lambda c: c.pop("format")), "expected format 1 in .* got None"),
    "no config": (card(lambda c: c.pop("config")), "expected config in .*model.json, got none"),
    "facts missing": (
        card(lambda c: (c.pop("parameters"), c.pop("card"))),
        "expected card, parameters in .*model.json, got none",
    ),
    "config is null": (deeper("config", value=None), "expected a table of keys, got None"),
    "config is a list": (deeper("config", value=[]), "expected a table of keys, got"),
    "unknown key": (deeper("config", "beam", value=8), "expected keys among .*, got 'beam'"),
    "a text width": (
        deeper("config", "encoder", "width", value="6"),
        "width: expected a valid integer, got",
    ),
    "a width of 0": (deeper("config", "decoder", "attention", "width", value=0), "got"),
    "a width below 0": (deeper("config", "encoder", "width", value=-1), "got"),
    "a huge width": (deeper("config", "encoder", "width", value=10**30), "got"),
    "no characters": (deeper("config", "vocabulary", "characters", value=""), "got ''"),
    "another width": (deeper("config", "encoder", "width", value=7), "where the model has .*7"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "got .*No such file"),
    "empty weights": (cut(WEIGHTS, 0), "expected a checkpoint in .*, got"),
    "half of the weights": (
        cut(WEIGHTS, 0.5),
        "expected a checkpoint in .*, got",
    ),
    "a missing tensor": (weights(lambda t: t.pop("ctc.weight")), r"ctc\.weight of shape none"),
    "8 bits without steps": (
        weights(lambda t: t.update({"ctc.weight": torch.ones(6, 6, dtype=torch.int8)})),
        r"no 'ctc\.weight:steps'",
    ),
    "steps of a matrix that is not in 8 bits": (
        weights(lambda t: t.update({"ctc.weight:steps": torch.ones(6)})),
        r"ctc\.weight:steps of shape \(6,\)",
    ),
    "a tensor too many": (weights(lambda t: t.update(x=torch.zeros(1))), r"x of shape \(1,\)"),
}


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_checkpoint_says_what_was_expected_and_what_is_there(
    folder: Path, name: str
) -> None:
    change, message = BREAKS[name]
    change(folder)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    said = str(caught.value)
    assert said.startswith("expected ")
    assert ", got " in said
    assert str(folder) in said
    assert re.search(message, said, re.DOTALL)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"expected a checkpoint at .*nowhere, got no model"):
        load(tmp_path / "nowhere")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"expected a checkpoint at .*file, got no model"):
        load(tmp_path / "file")


def test_a_run_in_place_of_its_checkpoint_is_told(tmp_path: Path) -> None:
    save(recognizer(), tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match=r"got no model.json; is .*checkpoint meant\?"):
        load(tmp_path)


def test_whoever_may_read_the_card_may_read_the_weights(tmp_path: Path) -> None:
    save(recognizer(), tmp_path)
    modes = {(tmp_path / name).stat().st_mode for name in (CARD, WEIGHTS)}
    assert len(modes) == 1
