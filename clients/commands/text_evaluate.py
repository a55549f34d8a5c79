"""`cortado text evaluate`: scores the runs of a text task."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import examples

EXAMPLES = examples(
    "cortado text evaluate training/recipes/text/translation.toml -o runs/translation",
    "cortado text evaluate training/recipes/text/subjects.toml -o runs/subjects --row soft",
)


def text_evaluate(
    recipe: Annotated[Path, typer.Argument(help="The TOML file of the task.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the runs.")],
    results: Annotated[Path, typer.Option(help="Folder of the scores and pictures.")] = Path(
        "training/results/text"
    ),
    row: Annotated[
        list[str] | None, typer.Option(help="Only this row; may be given again.")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="Only this seed; may be given again.")
    ] = None,
) -> None:
    """Score the runs of a text task, and draw what they attend to."""
    from cortado.clients.progress import progress_bar
    from cortado.training.text import recipe as recipes
    from cortado.training.text.evaluate import evaluate
    from cortado.training.text.train import has_ended

    plan = recipes.read(recipe)
    runs = [one for one in plan.runs(row or (), seed or ()) if has_ended(output, *one)]
    if not runs:
        raise ValueError(f"expected runs that have ended in {output}, got none")
    with progress_bar() as report:
        for one, number in runs:
            typer.echo(evaluate(plan, one, number, output, results, report))
