"""A checkpoint in figures (sizes, look-ahead, memory, scores), for people and for machines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortado.model.backends.choice import load_recognizer
from cortado.model.checkpoint_reader import CheckpointError, read, read_card
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP, WINDOW
from cortado.model.search.language_file import language_of
from cortado.model.streaming.interface import StreamingRecognizer


@dataclass(frozen=True)
class Description:
    """The figures of a checkpoint."""

    name: str
    parameters: int
    sample_rate: int  # Hz
    step_ms: int  # audio that the model takes at once
    lookahead_ms: int  # audio beyond a step that its characters rest on
    window_ms: int  # of the first feature frame, besides the look-ahead
    backend: str | None  # that serves the model on this machine; None where nothing streams it
    state_bytes: int | None  # memory of one live stream in it
    words: int  # that its own language model knows; 0 without one
    not_streamed: str | None  # why nothing streams it
    card: dict[str, Any]  # how it was trained and what it scores, as the trainer wrote it


def describe(folder: Path) -> Description:
    """Return the figures of the checkpoint in `folder`.

    Raises: CheckpointError where the checkpoint is missing, broken or of another shape.
    """
    card, stored = read_card(folder), read(folder)
    words = language_of(folder, stored.config.vocabulary)
    serving, reason = _streamed(folder)
    return Description(
        name=folder.resolve().name,
        parameters=card["parameters"],
        sample_rate=SAMPLE_RATE,
        step_ms=_milliseconds(SAMPLES_PER_STEP),
        lookahead_ms=card["lookahead_ms"],
        window_ms=_milliseconds(WINDOW),
        backend=serving.name if serving else None,
        state_bytes=serving.stepper(1).bytes_per_stream if serving else None,
        words=words.known,
        not_streamed=reason,
        card=card["card"],
    )


def _streamed(folder: Path) -> tuple[StreamingRecognizer | None, str | None]:
    """Return what serves a checkpoint here, or why nothing does.

    Raises: CheckpointError where it is broken or of another shape.
    """
    try:
        return load_recognizer(folder), None
    except CheckpointError:
        raise
    except ValueError as error:
        return None, str(error)


def _milliseconds(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
