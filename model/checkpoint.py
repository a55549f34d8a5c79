"""Checkpoints: a folder of `model.safetensors` (weights) and `model.json` (everything else)."""

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save as serialized
from torch import Tensor

import cortado.model.compiled.operations  # noqa: F401  # kernels for whole utterances
from cortado.model.arrays import row_codes
from cortado.model.checkpoint_reader import (
    CARD,
    DEFAULT,
    FORMAT,
    STEPS,
    WEIGHTS,
    CheckpointData,
    check_shape,
    checkpoint_errors,
    read,
)
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.recognizer import Recognizer
from cortado.model.whole_file import write_tree, write_whole

Bits = Literal[8, 16, 32]  # of a stored matrix' numbers
LARGE = 1 << 14  # numbers in a matrix that 8 bits hold; smaller ones keep 16


def save(
    recognizer: Recognizer,
    folder: str | os.PathLike[str],
    card: dict[str, Any] | None = None,
    bits: Bits = 32,
) -> None:
    """Write a checkpoint.

    Args:
        recognizer: what to keep.
        folder: where; made if it is not there.
        card: how the model was trained and what it scores.
        bits: of a matrix' numbers; vectors stay in 32. With 8, small matrices have 16.
    """
    folder = Path(folder)
    # The library's own writer lets nobody but the owner read the file.
    write_whole(folder / WEIGHTS, serialized(stored(recognizer, bits)))
    content = {
        "format": FORMAT,
        "config": dataclasses.asdict(recognizer.config),
        "sample_rate": SAMPLE_RATE,
        "lookahead_ms": recognizer.lookahead_ms,
        "parameters": sum(p.numel() for p in recognizer.parameters()),
    }
    write_tree(folder / CARD, content | {"card": card or {}})


def stored(recognizer: Recognizer, bits: Bits) -> dict[str, Tensor]:
    """Return weights and statistics as `save` stores them.

    A matrix in 8 bits has beside it the steps that its rows are multiples of.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in recognizer.state_dict().items():
        if bits == 8 and tensor.dim() == 2 and tensor.numel() >= LARGE:
            codes, steps = map(torch.from_numpy, row_codes(tensor.numpy()))
            found |= {name: codes, name + STEPS: steps}
        else:
            found[name] = (tensor.half() if bits < 32 and tensor.dim() > 1 else tensor).contiguous()
    return found


def load(folder: str | os.PathLike[str] = DEFAULT) -> Recognizer:
    """Return the recogniser of a checkpoint, in evaluation mode.

    Raises: CheckpointError where the checkpoint is missing, broken or of another shape.
    """
    return restored(read(folder), Path(folder))


def restored(data: CheckpointData, folder: Path) -> Recognizer:
    """Return the recogniser of what was read from a folder, in evaluation mode.

    Raises: CheckpointError where they are of another shape.
    """
    with checkpoint_errors(folder):
        recognizer = Recognizer(data.config)
        tensors = {name: torch.from_numpy(each) for name, each in data.tensors.items()}
        own = recognizer.state_dict()
        for name in sorted(own.keys() | tensors.keys()):
            got, expected = (
                tuple(side[name].shape) if name in side else None for side in (tensors, own)
            )
            check_shape(name, got, expected)
        recognizer.load_state_dict(tensors)
    return recognizer.eval()
