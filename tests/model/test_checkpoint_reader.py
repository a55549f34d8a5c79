"""A checkpoint without torch: what the fast backend takes, and what it refuses."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cortado.model import checkpoint, checkpoint_reader
from cortado.model.backends.choice import choose, load_recognizer
from cortado.model.checkpoint_reader import CARD, WEIGHTS, CheckpointError, read, read_config
from cortado.model.config import Confidence, RecognizerConfig
from cortado.model.recognizer import Recognizer

ROOT = Path(__file__).parents[2]
WITHOUT_TORCH = """
import sys
from pathlib import Path
from cortado.server.run import listen
from cortado.server.service import load
from cortado.server.settings import read_settings
service = load(read_settings(checkpoint=sys.argv[1], max_streams=1))
print(service.engine.recognizer.name.startswith("fast"), "torch" in sys.modules)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    torch.manual_seed(0)
    checkpoint.save(Recognizer(RecognizerConfig()).eval(), folder)
    return folder


def test_a_fast_recogniser_is_the_same_from_disk_and_from_a_module(folder: Path) -> None:
    stored, loaded = load_recognizer(folder), choose(checkpoint.load(folder))
    assert stored.digest == loaded.digest
    facts = [(one.lookahead_ms, one.delay_steps, one.flush_steps) for one in (stored, loaded)]
    assert facts[0] == facts[1]
    recognizer = checkpoint.load(folder)
    assert facts[0][:2] == (recognizer.lookahead_ms, recognizer.delay_steps)


@pytest.mark.parametrize(("ahead", "is_read"), [(False, True), (True, False)])
def test_a_look_ahead_that_is_gone_is_read_where_there_was_none(
    folder: Path, tmp_path: Path, ahead: bool, is_read: bool
) -> None:
    content = json.loads((folder / CARD).read_text())
    content["config"]["encoder"]["ahead"] = ahead
    (tmp_path / CARD).write_text(json.dumps(content))
    if is_read:
        assert read_config(tmp_path) == read_config(folder)
        return
    with pytest.raises(CheckpointError, match=r"encoder: expected keys among .*, got 'ahead'"):
        read_config(tmp_path)


def test_a_checkpoint_may_have_the_first_two_numbers_of_confidence(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "old")
    content = json.loads((folder / CARD).read_text())
    content["config"]["decoder"]["confidence"] = [1.5, -0.5]
    (tmp_path / "old" / CARD).write_text(json.dumps(content))
    assert read(tmp_path / "old").config.decoder.confidence == Confidence(1.5, -0.5, 0.0, 0.0)
    assert load_recognizer(tmp_path / "old").beam.confidence == Confidence(1.5, -0.5)


def test_a_configuration_is_read_without_the_weights(folder: Path, tmp_path: Path) -> None:
    shutil.copyfile(folder / CARD, tmp_path / CARD)
    assert read_config(tmp_path) == read(folder).config


def test_serving_with_the_fast_backend_does_without_torch(folder: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


WRONG = {
    "decoder.output.bias": ((27,), "(27,), where the model has (28,)"),
    "encoder.layers.1.dense.weight": (None, "none, where the model has (256, 256)"),
    "encoder.conv2.norm.num_batches_tracked": (None, "none, where the model has ()"),
    "phones.bias": ((43,), "(43,), where the model has none"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_tensor_that_is_missing_too_many_or_of_another_shape_is_told_alike_by_all_backends(
    name: str, backend: str, folder: Path, tmp_path: Path
) -> None:
    tensors, (shape, told) = load_file(folder / WEIGHTS), WRONG[name]
    tensors.pop(name, None)
    if shape:
        tensors[name] = torch.zeros(shape)
    save_file(tensors, tmp_path / WEIGHTS)
    (tmp_path / checkpoint_reader.CARD).write_bytes((folder / checkpoint_reader.CARD).read_bytes())
    with pytest.raises(CheckpointError) as caught:
        load_recognizer(tmp_path, backend)
    expected = f"expected a checkpoint in {tmp_path}, got {name} of shape {told}"
    assert str(caught.value) == expected


def test_a_tensor_of_another_type_is_told(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors["ctc.bias"] = tensors["ctc.bias"].to(torch.uint8)
    save_file(tensors, tmp_path / WEIGHTS)
    (tmp_path / checkpoint_reader.CARD).write_bytes((folder / checkpoint_reader.CARD).read_bytes())
    with pytest.raises(CheckpointError, match="got a tensor of type U8, which is none of F16, "):
        read(tmp_path)


def test_weights_that_are_not_numbers_are_refused(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors["decoder.output.bias"][0] = float("nan")
    save_file(tensors, tmp_path / WEIGHTS)
    (tmp_path / checkpoint_reader.CARD).write_bytes((folder / checkpoint_reader.CARD).read_bytes())
    with pytest.raises(CheckpointError, match=r"decoder\.output\.bias with values that are not"):
        read(tmp_path)
