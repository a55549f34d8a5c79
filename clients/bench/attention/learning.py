"""The time of attention weights in training: forward and backward of a batch of utterances.

The exact expected alignment stands against the papers' closed form, whose denominator is clipped as
in every public implementation, and against the softmax of soft attention. A decoder needs its
weights symbol by symbol, so that is how each is computed; the exact form is timed for a whole
matrix of energies as well.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cortado.model.attention.expected_alignment import (
    expected_alignment,
    expected_alignments,
    first_alignment,
)
from cortado.model.progress import Progress

BATCH, SYMBOLS = 16, 40  # B, U
LENGTHS = (100, 400, 1000)  # T
ROUNDS = 20  # in turns, so that whatever else the machine does meets all forms alike
BIAS = -4.0  # r, of the papers' models for WSJ before training
CLIP = 1e-10  # of the closed form, as in the papers' own code

Form = Callable[[Sequence[Tensor]], Tensor]  # U energies (B, T) -> weights (B, U, T)


@dataclass(frozen=True)
class Learning:
    """One form's time for the batch, forward and backward."""

    form: str
    device: str
    threads: int  # of the CPU
    frames: int  # T
    milliseconds: float  # median of the rounds
    error: float | None  # largest deviation of alpha from float64; None for soft attention


def closed_form(p: Tensor, previous: Tensor) -> Tensor:
    """Return alpha_i (B, T) by cumulative sum and product (Raffel et al. 2017, eq. 21), clipped."""
    passed = torch.nn.functional.pad((1 - p)[:, :-1], (1, 0), value=1.0).cumprod(1)
    return p * passed * (previous / passed.clamp(min=CLIP)).cumsum(1)


def _by_rows(step: Callable[[Tensor, Tensor], Tensor]) -> Form:
    def run(rows: Sequence[Tensor]) -> Tensor:
        alpha, alphas = first_alignment(*rows[0].shape).to(rows[0]), []
        for row in rows:
            alpha = step(row.sigmoid(), alpha)
            alphas.append(alpha)
        return torch.stack(alphas, 1)

    return run


def _whole(rows: Sequence[Tensor]) -> Tensor:
    return expected_alignments(torch.stack(list(rows), 1).sigmoid())


def _softmax(rows: Sequence[Tensor]) -> Tensor:
    return torch.stack([row.softmax(1) for row in rows], 1)


EXACT, WHOLE, CLOSED, SOFT = "exact", "exact, whole matrix", "closed form, clipped", "softmax"
FORMS: dict[str, Form] = {
    EXACT: _by_rows(expected_alignment),
    WHOLE: _whole,
    CLOSED: _by_rows(closed_form),
    SOFT: _softmax,
}


def _once(form: Form, rows: Sequence[Tensor], weight: Tensor) -> float:
    """Return the seconds of one forward and backward pass."""
    started = time.perf_counter()
    torch.autograd.grad(form(rows), list(rows), weight)
    if weight.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started


def measure(
    progress: Progress, lengths: Sequence[int] = LENGTHS, rounds: int = ROUNDS
) -> list[Learning]:
    """Return the times of all forms, on the CPU with one and two threads and on a GPU if any."""
    places = [("cpu", 1), ("cpu", 2)] + [("cuda", 1)] * torch.cuda.is_available()
    total, done = len(places) * len(lengths), 0
    before = torch.get_num_threads()
    found = []
    try:
        for device, threads in places:
            torch.set_num_threads(threads)
            for frames in lengths:
                progress(f"training, {device}, T = {frames}", done, total)
                found += _at(device, threads, frames, rounds)
                done += 1
    finally:
        torch.set_num_threads(before)
    progress("training", total, total)
    return found


def _at(device: str, threads: int, frames: int, rounds: int) -> list[Learning]:
    generator = torch.Generator().manual_seed(frames)
    energies = BIAS + torch.randn(SYMBOLS, BATCH, frames, generator=generator)
    weight = torch.randn(BATCH, SYMBOLS, frames, generator=generator).to(device)
    rows = [row.to(device).requires_grad_() for row in energies]
    with torch.no_grad():
        reference = FORMS[EXACT]([row.double() for row in energies])
        errors = {
            name: float((form(rows).double().cpu() - reference).abs().max())
            for name, form in FORMS.items()
        }
    times: dict[str, list[float]] = {name: [] for name in FORMS}
    for form in FORMS.values():  # to compile and to warm up
        _once(form, rows, weight)
    for _ in range(rounds):
        for name, form in FORMS.items():
            times[name].append(_once(form, rows, weight))
    return [
        Learning(
            name,
            device,
            threads,
            frames,
            1e3 * statistics.median(spent),
            None if name == SOFT else errors[name],
        )
        for name, spent in times.items()
    ]
