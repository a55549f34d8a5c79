"""Checkpoints as they lie on disk: `model.json` and `model.safetensors`, read without torch."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from cortado.model.config import RecognizerConfig
from cortado.model.config_reader import build

DEFAULT = Path(__file__).parent / "pretrained" / "small-en"
WEIGHTS, CARD = "model.safetensors", "model.json"
FORMAT = 1
FACTS = {"config", "lookahead_ms", "parameters", "card"}
GONE = ("ahead", False)  # of the encoder in older cards: what all do
KINDS = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8", "I64": "<i8", "I8": "i1"}
STEPS = ":steps"  # ends the name of what the rows of an 8-bit matrix are multiplied by
# what files that `save` did not write, or sizes that no model has, make of building and loading
_BROKEN = (KeyError, TypeError, ValueError, ArithmeticError, OSError, RuntimeError, SafetensorError)


class CheckpointError(ValueError):
    """A checkpoint that is missing, broken or of another format."""


@contextmanager
def checkpoint_errors(folder: Path) -> Iterator[None]:
    """Let whatever a broken checkpoint raises in the block be one line that names its folder."""
    try:
        yield
    except _BROKEN as error:
        reason = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise CheckpointError(f"expected a checkpoint in {folder}, got {reason}") from error


class Parameters(Protocol):
    """What serving takes of a recogniser: a `Recognizer` has it, and `CheckpointData`."""

    @property
    def config(self) -> RecognizerConfig:
        """What fixes the shape."""

    @property
    def lookahead_ms(self) -> int:
        """The look-ahead in milliseconds, besides the 25 ms window."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the tensors by name, of a kind that numpy takes."""


@dataclass(frozen=True)
class CheckpointData:
    """What a checkpoint holds of a recogniser, of which no module has been made."""

    config: RecognizerConfig
    lookahead_ms: int
    tensors: Mapping[str, Any]

    def state_dict(self) -> Mapping[str, Any]:
        """Return the tensors by name."""
        return self.tensors


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a checkpoint's `model.json`.

    Raises: CheckpointError where the folder or the file is not there, or is not what `save` writes.
    """
    folder = Path(folder)
    path = folder / CARD
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        of_run = folder / "checkpoint"
        hint = f"; is {of_run} meant?" if (of_run / CARD).exists() else ""
        raise CheckpointError(f"expected a checkpoint at {folder}, got no {CARD}{hint}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise CheckpointError(f"expected JSON in {path}, got {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(f"expected format {FORMAT} in {path}, got {found}")
    missing = FACTS - content.keys()
    if missing:
        raise CheckpointError(f"expected {', '.join(sorted(missing))} in {path}, got none")
    return content


def read_config(folder: str | os.PathLike[str] = DEFAULT) -> RecognizerConfig:
    """Return the configuration of a checkpoint, whose tensors are not looked at.

    Raises: CheckpointError where the checkpoint is missing, or its `model.json` broken.
    """
    return _built(Path(folder), read_card(folder))


def _built(folder: Path, content: dict[str, Any]) -> RecognizerConfig:
    with checkpoint_errors(folder):
        config = content["config"]
        if isinstance(config, dict) and isinstance(encoder := config.get("encoder"), dict):
            kept = {key: one for key, one in encoder.items() if (key, one) != GONE}
            config = {**config, "encoder": kept}
        return build(RecognizerConfig, config, str(folder / CARD), folder)


def read(folder: str | os.PathLike[str] = DEFAULT) -> CheckpointData:
    """Return the configuration and the tensors of a checkpoint, those of 8 and 16 bits widened.

    Raises: CheckpointError where the checkpoint is missing or broken.
    """
    folder = Path(folder)
    content = read_card(folder)
    config = _built(folder, content)
    with checkpoint_errors(folder):
        lookahead_ms = int(content["lookahead_ms"])
        try:
            parts = deserialize((folder / WEIGHTS).read_bytes())  # type: ignore[no-untyped-call]
        except SafetensorError as error:
            raise ValueError(f"a broken {WEIGHTS}: {error}") from error
        tensors = _multiplied({name: _widened(**part) for name, part in parts})
        for name, tensor in tensors.items():
            if not np.isfinite(tensor).all():
                raise ValueError(f"{name} with values that are not finite")
    return CheckpointData(config, lookahead_ms, tensors)


def check_shape(name: str, got: tuple[int, ...] | None, expected: tuple[int, ...] | None) -> None:
    """Check the shape of a checkpoint's tensor, which is None where there is none.

    Raises: ValueError where it is not the one that the model has.
    """
    if got != expected:
        found, own = ("none" if shape is None else shape for shape in (got, expected))
        raise ValueError(f"{name} of shape {found}, where the model has {own}")


def _multiplied(tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return tensors whose 8-bit matrices are multiplied by their rows' steps, which go.

    Raises:
        KeyError: such a matrix lacks its steps.
        ValueError: it has those of another.
    """
    found = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.dtype == np.int8:
            steps = found.pop(name + STEPS)
            check_shape(name + STEPS, steps.shape, tensor.shape[:1])
            found[name] = tensor * np.expand_dims(steps, 1)
    return found


def _widened(dtype: str, shape: list[int], data: bytes) -> NDArray[Any]:
    """Return a tensor of its own memory; one of 16 bits (numpy knows no bf16) has 32 then."""
    if dtype not in KINDS:
        raise ValueError(f"a tensor of type {dtype}, which is none of {', '.join(KINDS)}")
    found = np.frombuffer(data, KINDS[dtype])
    if dtype == "BF16":
        return (found.astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return found.astype("<f4" if dtype == "F16" else found.dtype).reshape(shape)
