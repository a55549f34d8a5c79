"""What a checkpoint is, in figures: for people who choose one and for machines that plan for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortado.model.backends.choice import Online, choose
from cortado.model.checkpoint import load, read_card
from cortado.model.features.log_mel import SAMPLE_RATE, SAMPLES_PER_STEP, WINDOW
from cortado.model.recognizer import Recognizer
from cortado.model.search import language_model as language
from cortado.model.search.language_model import Language


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
    reference_bytes: int | None  # and in the reference
    words: int  # that its own language model knows; 0 without one
    not_streamed: str | None  # why nothing streams it
    card: dict[str, Any]  # how it was trained and what it scores, as the trainer wrote it


def describe(folder: Path) -> Description:
    """Return the figures of the checkpoint in `folder`, taken from the loaded model.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
    """
    recognizer = load(folder)
    words = language.of(folder, recognizer.config.vocabulary)
    serving, reference, reason = _streamed(recognizer, words)
    return Description(
        name=folder.resolve().name,
        parameters=sum(parameter.numel() for parameter in recognizer.parameters()),
        sample_rate=SAMPLE_RATE,
        step_ms=_milliseconds(SAMPLES_PER_STEP),
        lookahead_ms=recognizer.lookahead_ms,
        window_ms=_milliseconds(WINDOW),
        backend=serving.name if serving else None,
        state_bytes=_state_bytes(serving),
        reference_bytes=_state_bytes(reference),
        words=words.known,
        not_streamed=reason,
        card=read_card(folder)["card"],
    )


def _streamed(
    recognizer: Recognizer, words: Language
) -> tuple[Online | None, Online | None, str | None]:
    """Return what serves a recogniser here, the reference, and why there is none of both."""
    try:
        serving = choose(recognizer, words=words)
        return serving, choose(recognizer, "reference", words=words), None
    except ValueError as error:
        return None, None, str(error)


def _state_bytes(online: Online | None) -> int | None:
    return online.table(1).bytes_per_stream if online else None


def _milliseconds(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
