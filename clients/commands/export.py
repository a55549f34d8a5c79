"""`cortado export`: put a model together for serving."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cortado.clients.commands.terminal import examples

EXAMPLES = examples(
    "cortado export runs/mine --lm mine.safetensors -o models/mine",
    "cortado export runs/one runs/two --share 3 --share 1 -o models/mean",
    "cortado export runs/mine --stops 1 0.8 -o models/sooner",
)


def export(
    checkpoints: Annotated[
        list[Path], typer.Argument(help="Folders of checkpoints, or of runs; of several the mean.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="Weight of a checkpoint in the average; give one for each checkpoint, in their"
            " order; equal if not set.",
        ),
    ] = None,
    lm: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Language model to go with it, or a folder that has one: that of the first"
            " checkpoint that has one if not set, or none.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What its card calls the recipe; as before if not set.")
    ] = None,
    stops: Annotated[
        tuple[float, float],
        typer.Option(
            metavar="FACTOR OFFSET",
            help="Factor of the energies by which a monotonic attention stops, and what is added"
            " to them; with more it stops sooner.",
        ),
    ] = (1.0, 0.0),
    bits: Annotated[
        Literal["8", "16"], typer.Option(help="Bits of the large matrices' numbers.")
    ] = "16",
) -> None:
    """Put a model together for serving.

    It is a checkpoint, or the mean of several, and a language model. The folder holds all that any
    backend needs: there is nothing to be compiled beforehand.
    """
    from cortado.model.description import describe
    from cortado.training.export import export as run

    written = run(checkpoints, output, share or (), lm, name, 8 if bits == "8" else 16, stops)
    found = describe(output)
    words = f"{found.words:,} words" if found.words else "no language model"
    way = found.not_streamed or f"streams by {found.backend}"
    typer.echo(f"{output}: {found.parameters:,} parameters, {words}, {written / 1e6:.1f} MB; {way}")
