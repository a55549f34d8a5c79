"""The results of `cortado bench attention`: tables for the terminal, JSON, a plot of speed."""

import dataclasses
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numba
import torch
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from cortado.clients.bench.attention.decoding import ENERGIES, Curve
from cortado.clients.bench.attention.learning import CLOSED, EXACT, FORMS, Learning
from cortado.clients.bench.attention.step import Step
from cortado.model.whole_file import named

COLOURS = ("#1b1b1b", "#0b6e99", "#c2410c", "#d97706", "#7c3aed")
DECODING = (
    "Processor time of one thread for all contexts of an utterance, mean of {trials} trials, in "
    "microseconds; in brackets how much faster than soft attention. Growth is the exponent b of "
    "a T^b fitted to all lengths: 2 is quadratic, 1 linear."
)
LEARNING = (
    "Forward and backward, 16 utterances of 40 symbols, row by row unless it says otherwise; "
    "median in milliseconds. In brackets the time relative to the closed form. Error: the "
    "largest deviation of alpha from float64."
)
STEP = (
    "One update of the whole recogniser (16 x 6 s, 70 symbols each, one thread): losses, "
    "gradients, Adam; median."
)


def decoding_table(curves: Sequence[Curve], energy: str) -> Table:
    """Return the times of one energy, a row per attention."""
    curves = [curve for curve in curves if curve.energy == energy]
    soft = curves[0]
    table = _table(f"decoding, {energy} energies", DECODING.format(trials=soft.trials))
    table.add_column("attention")
    shown = [n for n in soft.lengths if n in (10, 20, 50, 100, 200, 400, 800)] or soft.lengths
    for length in shown:
        table.add_column(f"T = U = {length}", justify="right")
    table.add_column("growth", justify="right")
    for curve in curves:
        cells = [_time(curve.at(n), None if curve is soft else soft.at(n)) for n in shown]
        table.add_row(curve.attention, *cells, f"{curve.exponent:.2f}")
    return table


def _time(microseconds: float, soft: float | None) -> str:
    time = f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"
    if soft is None:
        return time
    faster = soft / microseconds
    return f"{time} ({faster:.0f} x)" if faster >= 100 else f"{time} ({faster:.1f} x)"


def learning_table(found: Sequence[Learning]) -> Table:
    """Return the times in training, a row per form."""
    table = _table("training", LEARNING)
    table.add_column("weights")
    table.add_column("on")
    lengths = sorted({one.frames for one in found})
    for frames in lengths:
        table.add_column(f"T = {frames}", justify="right")
    table.add_column(f"error at T = {lengths[-1]}", justify="right")
    by_key = {(one.form, one.device, one.threads, one.frames): one for one in found}
    for device, threads in dict.fromkeys((one.device, one.threads) for one in found):
        for form in FORMS:
            row = [by_key[form, device, threads, frames] for frames in lengths]
            closed = [by_key[CLOSED, device, threads, frames] for frames in lengths]
            place = f"{device}, {threads} thread{'s' * (threads > 1)}" if device == "cpu" else "GPU"
            cells = [
                f"{one.milliseconds:.1f} ({one.milliseconds / other.milliseconds:.2f})"
                for one, other in zip(row, closed, strict=True)
            ]
            error = row[-1].error
            table.add_row(form, place, *cells, "" if error is None else f"{error:.0e}")
    return table


def step_table(steps: Sequence[Step]) -> Table:
    """Return the time of an update with each attention."""
    table = _table("the whole recogniser in training", STEP)
    table.add_column("attention")
    table.add_column("ms", justify="right")
    table.add_column("of soft attention", justify="right")
    soft = next(one.milliseconds for one in steps if one.attention == "soft")
    for one in steps:
        ratio = f"{one.milliseconds / soft:.2f} x"
        table.add_row(one.attention, f"{one.milliseconds:,.0f}", ratio)
    return table


def _table(title: str, caption: str) -> Table:
    return Table(title=title, caption=caption, box=box.SIMPLE, title_justify="left")


def as_json(
    curves: Sequence[Curve], learning: Sequence[Learning], steps: Sequence[Step]
) -> dict[str, Any]:
    """Return all that was measured and on what, for `json`."""
    return {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numba": numba.__version__,
        },
        "decoding": [dataclasses.asdict(one) | {"growth": one.exponent} for one in curves],
        "training": [dataclasses.asdict(one) for one in learning],
        "step": [dataclasses.asdict(one) for one in steps],
        "ratios": ratios(curves, learning, steps),
    }


def ratios(
    curves: Sequence[Curve], learning: Sequence[Learning], steps: Sequence[Step]
) -> dict[str, float]:
    """Return what the parts are compared by: times as fast, or the share of the other's time."""
    found = {}
    for energy in ENERGIES:
        by_name = {one.attention: one for one in curves if one.energy == energy}
        for one in by_name.values():
            for length in one.lengths:
                faster = by_name["soft"].at(length) / one.at(length)
                found[f"{one.attention}, {energy}, T = U = {length}: times as fast as soft"] = (
                    faster
                )
    times = {(one.form, one.device, one.threads, one.frames): one.milliseconds for one in learning}
    for (form, device, threads, frames), time in times.items():
        if form == EXACT:
            share = time / times[CLOSED, device, threads, frames]
            found[f"exact of closed form, {device}, {threads} threads, T = {frames}"] = share
    by_kind = {one.attention: one.milliseconds for one in steps}
    if by_kind:
        found["update with MoChA of one with soft attention"] = by_kind["mocha"] / by_kind["soft"]
    return found


def plot(curves: Sequence[Curve], path: Path) -> None:
    """Write the times over T = U, an SVG with a panel for each energy."""
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    panels = figure.subplots(1, len(ENERGIES), sharey=True)
    for axes, energy in zip(panels, ENERGIES, strict=True):
        shown = [one for one in curves if one.energy == energy]
        for curve, colour in zip(shown, COLOURS, strict=True):
            label = f"{curve.attention} (T^{curve.exponent:.2f})"
            axes.loglog(
                curve.lengths, curve.microseconds, "o-", ms=3, lw=1.5, color=colour, label=label
            )
        axes.set_title(f"{energy} energies", loc="left")
        axes.set_xlabel("T = U")
        axes.grid(True, which="major", lw=0.4, color="#d4d4d4")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    panels[0].set_ylabel("microseconds for an utterance's attention")
    with named(path):
        figure.savefig(path, format="svg", metadata={"Date": None})
