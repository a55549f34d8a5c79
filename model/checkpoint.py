"""Checkpoints: a folder of `model.safetensors` (weights) and `model.json` (everything else)."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from model.configuration import build
from model.recognizer import Recognizer, RecognizerConfig

DEFAULT = Path(__file__).parent / "pretrained" / "small-en"
WEIGHTS, CARD = "model.safetensors", "model.json"
FORMAT = 1
# what files that `save` did not write, or sizes that no model has, make of building and loading
BROKEN = (KeyError, TypeError, ValueError, ArithmeticError, OSError, RuntimeError, SafetensorError)


class CheckpointError(ValueError):
    """A checkpoint that is missing, broken or of another format."""


def save(
    recognizer: Recognizer, folder: Path, card: dict[str, Any] | None = None, half: bool = False
) -> None:
    """Write a checkpoint.

    Args:
        recognizer: what to keep.
        folder: where; made if it is not there.
        card: how the model was trained and what it scores.
        half: keep matrices in 16 bits, which halves the file; vectors stay in 32.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: (tensor.half() if half and tensor.dim() > 1 else tensor).contiguous()
        for name, tensor in recognizer.state_dict().items()
    }
    save_file(tensors, folder / WEIGHTS)
    content = {
        "format": FORMAT,
        "config": dataclasses.asdict(recognizer.config),
        "sample_rate": 16_000,
        "lookahead_ms": recognizer.lookahead_ms,
        "parameters": sum(p.numel() for p in recognizer.parameters()),
    }
    text = json.dumps(content | {"card": card or {}}, indent=2, ensure_ascii=False)
    (folder / CARD).write_text(text + "\n", encoding="utf-8")


def read_card(folder: Path) -> dict[str, Any]:
    """Return the content of a checkpoint's `model.json`.

    Raises:
        CheckpointError: the folder or the file is not there, or is not what `save` writes.
    """
    path = folder / CARD
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"expected a checkpoint at {folder}, got no {CARD}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise CheckpointError(f"expected JSON in {path}, got {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(f"expected format {FORMAT} in {path}, got {found}")
    return content


def load(folder: Path = DEFAULT) -> Recognizer:
    """Return the recogniser of a checkpoint, in evaluation mode.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
    """
    content = read_card(folder)
    try:
        config = build(RecognizerConfig, content["config"], str(folder / CARD), folder)
        recognizer = Recognizer(config)
        tensors = load_file(folder / WEIGHTS)
        widened = {k: v.float() if v.dtype == torch.float16 else v for k, v in tensors.items()}
        recognizer.load_state_dict(widened)
    except BROKEN as error:
        raise CheckpointError(f"expected a checkpoint in {folder}, got {error}") from error
    return recognizer.eval()
