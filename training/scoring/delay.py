"""Emission delay: the time from the end of a character to its emission.

A character is emitted at the end of the step that commits it: at `Character.time` (the end of the
encoder frame where the attention stopped), plus the look-ahead, plus `Character.late` (how long the
search left it open). A character ends with its last frame on the CTC head's best path for the
reference, by forced alignment with the same encoder. Only correct characters count, as the edit
alignment matches them, without spaces; of phones, each is one. Computing and a network add their
own time.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jiwer
import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.emission import FLUSH_STEPS, Character
from cortado.model.features.framing import SAMPLES_PER_STEP, STEP_SECONDS

if TYPE_CHECKING:  # delays need torch, but not everything that reports them
    from torch import Tensor

    from cortado.model.recognizer import Recognizer


@dataclass(frozen=True)
class Delay:
    """Percentiles of emission delays, in milliseconds."""

    p50_ms: float
    p90_ms: float
    lookahead_ms: float  # the part that the look-ahead's steps make, the same for each character
    characters: int  # measured; phones where those are written


def emission_offset(recognizer: "Recognizer") -> float:
    """Return the seconds from a `Character.time` to the end of the step that could write it."""
    return recognizer.delay_steps * STEP_SECONDS


def ctc_log_probs(recognizer: "Recognizer", recordings: Sequence[Samples]) -> "list[Tensor]":
    """Return the CTC head's (T, V + 1) log probabilities of each recording, flush included."""
    import torch

    steps = [-(-len(samples) // SAMPLES_PER_STEP) + FLUSH_STEPS for samples in recordings]
    padded = np.zeros((len(recordings), max(steps) * SAMPLES_PER_STEP), np.float32)
    for row, samples in zip(padded, recordings, strict=True):
        row[: len(samples)] = samples
    with torch.inference_mode():
        encoded = recognizer.encode(torch.from_numpy(padded))
        log_probs = recognizer.ctc(encoded).log_softmax(2)
    return [one[:length] for one, length in zip(log_probs, steps, strict=True)]


def character_ends(recognizer: "Recognizer", log_probs: "Tensor", text: str) -> NDArray[np.float64]:
    """Return the end (U,) of each character of a text in seconds.

    All are NaN for a text with characters that the vocabulary lacks, or with more than fit into
    the frames.

    Args:
        recognizer: whose CTC head it is.
        log_probs: (T, V + 1) of one recording, the blank last.
        text: the reference; phones have one space between them.
    """
    import torch

    from cortado.training.alignment.ctc import last_frames

    vocabulary = recognizer.config.vocabulary
    unaligned = np.full(len(text), np.nan)
    try:
        encoded = vocabulary.encode(text)
    except ValueError:
        return unaligned
    last = last_frames(log_probs, torch.tensor(encoded, dtype=torch.long))
    if last is None:
        return unaligned
    ends = np.asarray((last.double().numpy() + 1 - recognizer.delay_steps) * STEP_SECONDS)
    return np.repeat(ends, [len(vocabulary.texts[one]) for one in encoded])[: len(text)]


def delays(
    reference: str,
    ends: NDArray[np.float64],
    characters: Sequence[Character],
    offset: float,
    phones: bool = False,
) -> list[float]:
    """Return the seconds from the end of each correct character, or phone, until it was emitted.

    Args:
        reference: the text.
        ends: (U,) of its characters.
        characters: the hypothesis.
        offset: `emission_offset` of the recogniser.
        phones: both texts are phones: an `s` is no part of an `sh`.
    """
    hypothesis = "".join(one.text for one in characters)
    said, heard = (_places(text, phones) for text in (reference, hypothesis))
    align = jiwer.process_words if phones else jiwer.process_characters
    found = []
    for chunk in align(reference.strip(), hypothesis.strip()).alignments[0]:
        if chunk.type != "equal":
            continue
        matched = said[chunk.ref_start_idx : chunk.ref_end_idx]
        for i, k in zip(matched, heard[chunk.hyp_start_idx : chunk.hyp_end_idx], strict=True):
            if not reference[i].isspace() and not np.isnan(ends[i]):
                found.append(characters[k].time + characters[k].late + offset - float(ends[i]))
    return found


def _places(text: str, phones: bool) -> Sequence[int]:
    """Return where each phone begins, or each character but the white space around the text."""
    if phones:
        return [phone.start() for phone in re.finditer(r"\S+", text)]
    return range(len(text) - len(text.lstrip()), len(text.rstrip()))


def summary(seconds: Iterable[float], offset: float) -> Delay | None:
    """Return the percentiles of delays, or None where there are no delays."""
    values = np.fromiter(seconds, np.float64) * 1000
    if not len(values):
        return None
    p50, p90 = np.percentile(values, [50, 90])
    return Delay(round(float(p50), 1), round(float(p90), 1), round(offset * 1000, 1), len(values))
