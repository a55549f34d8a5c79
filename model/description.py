"""What a checkpoint is, in figures: for people who choose one and for machines that plan for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from model.checkpoint import load, read_card
from model.features import SAMPLE_RATE, SAMPLES_PER_STEP, WINDOW
from model.online import OnlineRecognizer


@dataclass(frozen=True)
class Description:
    """The figures of a checkpoint."""

    name: str
    parameters: int
    sample_rate: int  # Hz
    step_ms: int  # audio that the model takes at once
    lookahead_ms: int  # audio beyond a step that its characters rest on
    window_ms: int  # of the first feature frame, besides the look-ahead
    state_bytes: int  # memory of one live stream in the model
    card: dict[str, Any]  # how it was trained and what it scores, as the trainer wrote it


def describe(folder: Path) -> Description:
    """Return the figures of the checkpoint in `folder`, taken from the loaded model.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
    """
    recognizer = load(folder)
    online = OnlineRecognizer(recognizer)
    state = online.initial_state(1)
    return Description(
        name=folder.resolve().name,
        parameters=sum(parameter.numel() for parameter in recognizer.parameters()),
        sample_rate=SAMPLE_RATE,
        step_ms=_milliseconds(SAMPLES_PER_STEP),
        lookahead_ms=online.lookahead_ms,
        window_ms=_milliseconds(WINDOW),
        state_bytes=sum(tensor.numel() * tensor.element_size() for tensor in _tensors(state)),
        card=read_card(folder)["card"],
    )


def _milliseconds(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE


def _tensors(state: tuple[Any, ...]) -> Iterable[Tensor]:
    """Yield the tensors of a nested state."""
    for part in state:
        if isinstance(part, Tensor):
            yield part
        else:
            yield from _tensors(part)
