"""`cortado bench attention`: the speed of the attentions on this machine."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import Json, check_places, console, examples

EXAMPLES = examples(
    "cortado bench attention",
    "cortado bench attention --part decoding --svg attention.svg --json attention.json",
)


class Part(StrEnum):
    """What is measured."""

    DECODING = "decoding"
    TRAINING = "training"
    STEP = "step"


def bench_attention(
    part: Annotated[
        list[Part] | None,
        typer.Option(
            help="decoding (attention alone), training (exact against closed form), step (the "
            "whole recogniser); may be given again. All if not given."
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Utterances that each time in decoding is the mean of.")
    ] = 100,
    json_file: Json = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Plot decoding speed here, as the papers do.")
    ] = None,
) -> None:
    """Measure the attentions: decoding, training, whole updates."""
    from cortado.clients.bench.attention import decoding, learning, report, step
    from cortado.clients.progress import progress_bar
    from cortado.model.whole_file import write_tree

    parts = part or list(Part)
    if svg is not None and Part.DECODING not in parts:
        raise ValueError("expected --part decoding with --svg, which plots it, got another part")
    check_places(json_file, svg)
    with progress_bar() as progress:
        curves = decoding.measure(progress, trials) if Part.DECODING in parts else []
        learnt = learning.measure(progress) if Part.TRAINING in parts else []
        steps = step.measure(progress) if Part.STEP in parts else []
    if json_file is not None:
        write_tree(json_file, report.as_json(curves, learnt, steps))
    if svg is not None:
        report.plot(curves, svg)
    out = console()
    if curves:
        for energy in decoding.ENERGIES:
            out.print(report.decoding_table(curves, energy))
    if learnt:
        out.print(report.learning_table(learnt))
    if steps:
        out.print(report.step_table(steps))
