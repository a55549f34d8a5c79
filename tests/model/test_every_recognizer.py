"""A recogniser with each mechanism: kept, loaded, streamed, one line of a recipe apart."""

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from cortado.model.attention.config import MONOTONIC, SCORES, Kind
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.checkpoint import load, save
from cortado.model.config import RecognizerConfig
from cortado.model.config_reader import build
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import decode, modes
from cortado.model.streaming.recordings import transcribe, transcribe_many
from cortado.tests.model.untrained import encoded, noise

FOLDER = Path("/nowhere")
EVERY: list[dict[str, Any]] = [
    {"kind": order, "attention": {"kind": kind, "score": score}}
    for kind in get_args(Kind)
    for score in SCORES[kind]
    for order in ("bahdanau", "luong")
    if order == "luong" or kind not in MONOTONIC or score == "additive"
] + [
    {"kind": "bahdanau", "layers": 2, "readout": "maxout"},
    {"kind": "luong", "layers": 3, "readout": "mlp"},
    {"kind": "ctc"},
]


def name(decoder: dict[str, Any]) -> str:
    others = decoder.get("attention", {}).values() or (decoder.get("readout", "alone"),)
    return "-".join([decoder["kind"], *others])


def is_online(decoder: dict[str, Any]) -> bool:
    return decoder.get("attention", {}).get("kind", MONOTONIC[0]) in MONOTONIC


every = pytest.mark.parametrize("decoder", EVERY, ids=name)


def recognizer(decoder: dict[str, Any]) -> Recognizer:
    """A small recogniser of a recipe's tables, whose energies tell its frames apart."""
    tree = {
        "vocabulary": {"characters": "abcdef"},
        "encoder": {"channels": 2, "width": 8, "layers": 1},
        "decoder": {"width": 8, "embedding": 4, **decoder},
    }
    torch.manual_seed(1)
    model = Recognizer(build(RecognizerConfig, tree, "recipe.toml", FOLDER)).eval()
    with torch.no_grad():
        frames = encoded(model, noise(9, 2.0))
        for reader in model.modules():
            if isinstance(reader, torch.nn.Linear) and reader.in_features == 8:
                reader.weight.mul_(1 / (frames.std() + 1e-3))
        attention = getattr(model.decoder, "attention", None)
        if attention is not None and attention.online:
            attention.monotonic.scale.mul_(20)
            attention.monotonic.bias.zero_()
    return model


@every
def test_a_checkpoint_gives_the_same_recogniser_back(
    decoder: dict[str, Any], tmp_path: Path
) -> None:
    model = recognizer(decoder)
    save(model, tmp_path)
    loaded = load(tmp_path)
    assert loaded.config == model.config
    frames, lengths = torch.randn(2, 10, 8), torch.tensor([10, 6])
    mode = modes(model)[0]
    assert modes(loaded) == modes(model)
    assert decode(loaded, frames, lengths, mode) == decode(model, frames, lengths, mode)


@pytest.mark.parametrize("decoder", [one for one in EVERY if is_online(one)], ids=name)
def test_streams_write_together_what_they_write_alone(decoder: dict[str, Any]) -> None:
    online = ReferenceRecognizer(recognizer(decoder))
    recordings = [noise(seed, 0.3 + 0.2 * seed) for seed in range(3)]
    together = dict(transcribe_many(online, recordings, 2))
    for index, samples in enumerate(recordings):
        assert together[index] == transcribe(online, samples)


def test_attention_to_whole_utterances_is_refused_for_streams() -> None:
    decoder = {"kind": "bahdanau", "attention": {"kind": "soft"}}
    with pytest.raises(ValueError, match="expected a monotonic attention for streams, got "):
        ReferenceRecognizer(recognizer(decoder))


def test_the_mechanism_is_one_line_of_a_recipe() -> None:
    tree = {"decoder": {"attention": {"kind": "soft"}}}
    assert not Recognizer(build(RecognizerConfig, tree, "recipe.toml", FOLDER)).decoder.online
    tree = {"decoder": {"attention": {"kind": "sotf"}}}
    with pytest.raises(ValueError, match=r"attention: kind: expected 'mocha', .*, got 'sotf'"):
        build(RecognizerConfig, tree, "recipe.toml", FOLDER)


def test_no_tensor_is_left_on_the_cpu_when_a_model_is_on_a_gpu() -> None:
    """In a process of its own: kernels of this one would ask for the numbers of fake tensors."""
    command = [sys.executable, "-W", "ignore", "-m", "cortado.tests.model.fake_gpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
