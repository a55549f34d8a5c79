"""`cortado text train`: trains the rows of a text task."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import Device, Rows, examples

EXAMPLES = examples(
    "cortado text train training/recipes/text/translation.toml -o runs/translation",
    "cortado text train training/recipes/text/subjects.toml -o runs/subjects --row soft --seed 1",
)

Task = Annotated[Path, typer.Argument(help="The TOML file of the task.")]
Runs = Annotated[Path, typer.Option("--output", "-o", help="Folder of the runs.")]
Seeds = Annotated[list[int] | None, typer.Option(help="Only this seed; may be given again.")]


def text_train(
    recipe: Task,
    output: Runs,
    row: Rows = None,
    seed: Seeds = None,
    device: Device = None,
) -> None:
    """Train the rows of a text task; run it again to go on after a stop."""
    from cortado.clients.progress import progress_bar
    from cortado.training.text import recipe as recipes
    from cortado.training.text.train import train

    plan = recipes.read(recipe)
    with progress_bar() as report:
        for one, number in plan.runs(row or (), seed or ()):
            typer.echo(train(plan, one, number, output, device, report))
