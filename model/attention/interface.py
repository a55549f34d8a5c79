"""The interfaces of an attention: of all for whole utterances, of monotonic ones for streams."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class Attended(NamedTuple):
    """The attention for one symbol of whole utterances."""

    context: Tensor  # (B, H)
    weights: Tensor  # (B, T) of the encoder frames in the context
    memory: Tensor  # (B, ...) for the next symbol: alpha (B, T) of a monotonic attention
    energies: Tensor | None  # (B, T) monotonic energies, before noise; None where there are none


class Attention(Protocol):
    """Weights over whole utterances, for training and for decoding offline."""

    online: bool  # whether it is monotonic and streams

    def keys(self, values: Tensor, mask: Tensor) -> Any:
        """Return the keys of (B, T, H) frames; the `mask` (B, T) is false on padding."""

    def first(self, mask: Tensor) -> Tensor:
        """Return the memory (B, ...) before the first symbol."""

    def attend(self, query: Tensor, keys: Any, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return the context and the weights of one symbol.

        Args:
            query: (B, H) decoder state.
            keys: of the encoder frames.
            memory: of the symbol before.
            noise: standard deviation of the pre-sigmoid noise of a monotonic attention in training,
                which pushes its p towards 0 and 1.
        """


class MonotonicAttention(Attention, Protocol):
    """An attention that also scans a stream frame by frame, and stops."""

    window: int  # encoder frames that a stop may look back to, its own included

    def scan_key(self, value: Tensor) -> Tensor:
        """Return the scan's keys (S, d) of the newest (S, H) frame."""

    def chunk_key(self, value: Tensor) -> Tensor:
        """Return the chunk's keys (S, d) of the newest (S, H) frame; d may be 0."""

    def energy(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the monotonic energies (S,) of (S, H) queries at one frame."""

    def context(self, query: Tensor, keys: Tensor, values: Tensor, valid: Tensor) -> Tensor:
        """Return the (S, H) context of a stop at the newest frame.

        Args:
            query: (S, H) decoder states.
            keys: (S, w, d) chunk keys of the last frames.
            values: (S, w, H) the last frames.
            valid: (S, w) false on entries that the stop may not look back to.
        """

    def stopped(self, valid: Tensor, stops: Tensor) -> Tensor:
        """Return `valid` (S, w) for the next symbol, given which streams (S,) have stopped."""


def stops(energies: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return true where a scan with these energies stops, same shape.

    It stops where p >= 0.5; with a generator, stops are drawn from Bernoulli(p), the process whose
    expectation training takes.
    """
    if generator is None:
        return energies >= 0
    drawn = torch.rand(energies.shape, generator=generator, dtype=energies.dtype)
    return drawn.to(energies.device) < energies.sigmoid()
