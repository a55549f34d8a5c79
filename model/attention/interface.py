"""What decoders ask of every attention, and what streams ask of the monotonic ones."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class Attended(NamedTuple):
    """What the attention gives to one symbol of whole utterances."""

    context: Tensor  # (B, H)
    weights: Tensor  # (B, T) of the encoder frames in the context
    memory: Tensor  # (B, ...) for the next symbol: alpha (B, T) of a monotonic attention
    energies: Tensor | None  # (B, T) monotonic energies, before noise; None where there are none


class Attention(Protocol):
    """Weights over whole utterances, for training and for decoding offline."""

    online: bool  # whether it is monotonic and streams

    def keys(self, values: Tensor, mask: Tensor) -> Any:
        """Return what serves all symbols, of (B, T, H) frames that `mask` (B, T) tells apart."""

    def first(self, mask: Tensor) -> Tensor:
        """Return the memory (B, ...) before the first symbol."""

    def attend(self, query: Tensor, keys: Any, memory: Tensor, noise: float = 0.0) -> Attended:
        """Return what one symbol attends to.

        Args:
            query: (B, H) decoder state.
            keys: of the encoder frames.
            memory: of the symbol before.
            noise: standard deviation of the noise that pushes a monotonic attention's p towards
                0 and 1 in training.
        """


class MonotonicAttention(Attention, Protocol):
    """An attention that also scans a stream frame by frame, and stops."""

    window: int  # encoder frames that a stop may look back to, its own included

    def scan_key(self, value: Tensor) -> Tensor:
        """Return (S, d) what the scan asks of the newest (S, H) frame."""

    def chunk_key(self, value: Tensor) -> Tensor:
        """Return (S, d) what a chunk asks of the newest (S, H) frame; d may be 0."""

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
    """Return true where a scan with these energies stops.

    Without a generator where p >= 0.5; with one, as drawn from Bernoulli(p), the process whose
    expectation training takes.
    """
    if generator is None:
        return energies >= 0
    drawn = torch.rand(energies.shape, generator=generator, dtype=energies.dtype)
    return drawn.to(energies.device) < energies.sigmoid()
