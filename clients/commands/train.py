"""`cortado train`: trains a model by a recipe."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import Device, examples

EXAMPLES = examples(
    "cortado train training/recipes/small-en.toml",
    "cortado train my.toml --output runs/mine --processes 4",
)


def train(
    recipe: Annotated[Path, typer.Argument(help="The TOML file that says what to train.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the run; runs/NAME of the recipe if not set."
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", "-p", min=1, help="Processes that share the work.")
    ] = 1,
    device: Device = None,
) -> None:
    """Train a model by a recipe; run it again to go on after a stop."""
    from cortado.clients.progress import progress_bar
    from cortado.training.learning import recipe as recipes
    from cortado.training.learning.run import train as run

    plan = recipes.read(recipe, output)
    with progress_bar() as report:
        written = run(plan, output or recipes.RUNS / plan.name, processes, report, device)
    typer.echo(written)
