"""Emission delay: the time from the end of a character to when it is written.

A character is emitted when its step has been computed: at the end of the 40 ms of audio that the
step waits for, the look-ahead included (`Character.time`, the end of the encoder frame where the
attention stopped, plus the look-ahead in steps, plus `Character.late`, the time for which a search
left it open). Its end is that of its last frame on the CTC
head's best path for the reference text, by forced alignment with the same model's encoder. Only
correct characters count: those that the edit alignment matches, spaces left out, since a
space has no end of its own. What computing and a network add comes on top.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jiwer
import numpy as np
from numpy.typing import NDArray

from cortado.model.audio.decode import Samples
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
    characters: int  # measured


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
    """Return the end (U,) of each character of a text in seconds, NaN where there is none.

    There is none for a text that has characters which the recogniser does not know, or more than
    fit into the frames.

    Args:
        recognizer: whose CTC head it is.
        log_probs: (T, V + 1) of one recording, the blank last.
        text: that was said; of phones, with one space between.
    """
    import torch
    import torchaudio

    vocabulary = recognizer.config.vocabulary
    unaligned = np.full(len(text), np.nan)
    try:
        spelt = vocabulary.encode(text)
    except ValueError:
        return unaligned
    symbols = torch.tensor([spelt])
    repeats = int((symbols[0, 1:] == symbols[0, :-1]).sum())
    if not spelt or len(spelt) + repeats > len(log_probs):
        return unaligned
    blank = log_probs.shape[1] - 1
    path, _ = torchaudio.functional.forced_align(log_probs[None].contiguous(), symbols, blank=blank)
    path = path[0]
    following = torch.nn.functional.pad(path[1:], (0, 1), value=-1)
    last = ((path != blank) & (path != following)).nonzero()[:, 0].double().numpy()
    ends = np.asarray((last + 1 - recognizer.delay_steps) * STEP_SECONDS)
    return np.repeat(ends, [len(vocabulary.texts[one]) for one in spelt])[: len(text)]


def delays(
    reference: str, ends: NDArray[np.float64], heard: Sequence[Character], offset: float
) -> list[float]:
    """Return the seconds from the end of each correct character until it was emitted.

    Args:
        reference: the text.
        ends: (U,) of its characters.
        heard: the hypothesis.
        offset: `emission_offset` of the recogniser.
    """
    hypothesis = "".join(one.text for one in heard)
    found = []
    for chunk in jiwer.process_characters(reference, hypothesis).alignments[0]:
        if chunk.type != "equal":
            continue
        said = range(chunk.ref_start_idx, chunk.ref_end_idx)
        for i, k in zip(said, range(chunk.hyp_start_idx, chunk.hyp_end_idx), strict=True):
            if not reference[i].isspace() and not np.isnan(ends[i]):
                found.append(heard[k].time + heard[k].late + offset - float(ends[i]))
    return found


def summary(seconds: Iterable[float], offset: float) -> Delay | None:
    """Return the percentiles of delays, or None where there are no delays."""
    values = np.fromiter(seconds, np.float64) * 1000
    if not len(values):
        return None
    p50, p90 = np.percentile(values, [50, 90])
    return Delay(round(float(p50), 1), round(float(p90), 1), round(offset * 1000, 1), len(values))
