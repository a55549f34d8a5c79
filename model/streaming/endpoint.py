"""Where utterances end: rules on the attention's silence, the CTC head's blanks and the length,
and, where one hears the stream too, on a voice activity detector's quiet.

What is decided rests on a stream's symbols and encoder frames alone, in whole steps, each stream by
itself: like them it is a function of the audio, the same live and offline.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cortado.model.checkpoint_reader import Parameters
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.streaming.stream import LATE

BLANK = 0.5  # probability from which the CTC head is taken to hear no character
LANES = 16  # float32 in the widest vector
NEVER = 1 << 30  # steps


@dataclass(frozen=True)
class Rule:
    """An utterance, which has at least one character, ends where all of this holds.

    In the manner of Kaldi's endpointing rules (kaldi-asr, src/online2/online-endpoint.h).
    """

    silence: float = 0.0  # seconds since its last character
    blank: float = 0.0  # seconds for which the CTC head has heard no character, since its first
    length: float = 0.0  # seconds since its first character
    quiet: float = 0.0  # seconds for which the detector has heard no speech, since the first too

    def __post_init__(self) -> None:
        """Check that the rule says something.

        Raises:
            ValueError: a time that is negative or no number, or all of them zero.
        """
        times = self.times
        if not all(math.isfinite(time) and time >= 0 for time in times) or not any(times):
            raise ValueError(f"expected seconds, at least one above 0, got {self}")

    @property
    def times(self) -> tuple[float, ...]:
        """The three, and the fourth if it asks for any."""
        three = (self.silence, self.blank, self.length)
        return (*three, self.quiet) if self.quiet else three

    @property
    def steps(self) -> tuple[int, ...]:
        """The four in steps, rounded up."""
        return tuple(
            math.ceil(round(time / STEP_SECONDS, 6))
            for time in (self.silence, self.blank, self.length, self.quiet)
        )


RULES = (
    Rule(silence=0.8, blank=0.6),  # both have heard nothing
    Rule(silence=2.0),  # the attention has, though the head hears something in the noise
    Rule(blank=3.0),  # the attention writes where nobody speaks: a loop
    Rule(silence=0.2, length=20.0),  # a long one, at its next pause
    Rule(length=60.0),  # what is kept of an utterance is bounded
)

QUIET_RULES = (  # for streams that a voice activity detector hears too
    Rule(silence=0.4, quiet=0.6),  # both have heard nothing
    *RULES[2:],  # a loop, and the long ones
)


class Head(NamedTuple):
    """The CTC head, its first output the blank, then V and as many that never win as fill lanes."""

    weight: NDArray[np.float32]  # (H, P)
    bias: NDArray[np.float32]  # (P,)


def head(recognizer: Parameters) -> Head:
    """Return the CTC head of a recogniser."""
    tensors = recognizer.state_dict()
    parameters = (np.asarray(tensors[f"ctc.{name}"], np.float32) for name in ("weight", "bias"))
    weight, bias = (np.roll(x, 1, axis=0) for x in parameters)
    missing = -len(bias) % LANES
    return Head(
        np.ascontiguousarray(np.pad(weight, ((0, missing), (0, 0))).T),
        np.pad(bias, (0, missing), constant_values=-np.inf),
    )


class Endpointer:
    """The utterances of a number of streams, one a row, followed step by step."""

    def __init__(self, streams: int, rules: tuple[Rule, ...] = RULES) -> None:
        self._rules = np.array([rule.steps for rule in rules], np.int64).reshape(-1, 4)
        # (S, 4) steps: since the last character, of blanks in a row, since the first character, of
        # quiet in a row, which nobody counts where no rule asks for it
        self._counts = np.zeros((streams, 4), np.int64)
        self._told = 4 if self._rules[:, 3].any() else 3  # counts that are suspended
        self._spoken = np.zeros(streams, np.bool_)  # whether the utterance has a character

    def reset(self, rows: NDArray[np.int64]) -> None:
        """Let the streams in (R,) rows have heard nothing."""
        self._counts[rows], self._spoken[rows] = 0, False

    def step(
        self,
        rows: NDArray[np.int64],
        symbols: NDArray[np.int32],
        blanks: NDArray[np.bool_],
        quiet: NDArray[np.bool_] | bool = False,
    ) -> NDArray[np.bool_]:
        """Return which of the streams in (R,) rows end an utterance with this step.

        Args:
            rows: which streams, each once.
            symbols: (R, n) what the step wrote, -1 for none.
            blanks: (R,) whether the CTC head heard no character.
            quiet: (R,) whether the detector heard no speech, for rules that ask for it.
        """
        wrote: NDArray[np.bool_] = np.any(symbols >= 0, axis=1)
        counts, spoken = self._counts[rows] + 1, self._spoken[rows]
        since = np.where(symbols >= 0, symbols // LATE, NEVER).min(1)  # heard, not told
        counts[wrote, 0] = since[wrote]
        counts[~blanks, 1] = 0
        counts[:, 3] *= quiet
        counts[~spoken, 1:] = 0  # what was before the first character does not count
        spoken |= wrote
        met: NDArray[np.bool_] = np.all(counts[:, None] >= self._rules, axis=2)
        ended = spoken & met.any(1)
        spoken &= ~ended
        self._counts[rows], self._spoken[rows] = counts, spoken
        return ended

    def suspend(self, row: int) -> tuple[int, ...]:
        """Return what `resume` takes."""
        return (*self._counts[row, : self._told].tolist(), int(self._spoken[row]))

    def resume(self, row: int, kept: tuple[int, ...]) -> None:
        """Give a row what `suspend` returned."""
        *counts, spoken = kept
        self._counts[row, : self._told], self._spoken[row] = counts, bool(spoken)


def blanks(frames: NDArray[np.float32], head: Head) -> NDArray[np.bool_]:
    """Return (R,) whether the CTC head hears no character in encoder frames (R, H).

    Each row is summed in one order, whatever the batch, as a library's product is not.
    """
    return _blanks(np.ascontiguousarray(frames), *head, BLANK)


@numba.njit(cache=True, nogil=True)
def _blanks(
    frames: NDArray[np.float32],
    weight: NDArray[np.float32],
    bias: NDArray[np.float32],
    least: float,
) -> Any:
    found = np.empty(len(frames), np.bool_)
    logits = np.empty_like(bias)
    for row in range(len(frames)):
        logits[:] = bias
        for h in range(len(weight)):
            value = frames[row, h]
            for v in range(len(bias)):
                logits[v] += value * weight[h, v]
        blank, others = logits[0], 0.0
        for v in range(1, len(bias)):
            others += math.exp(min(logits[v] - blank, 80.0))
        found[row] = least * (1 + others) <= 1
    return found
