"""`cortado text evaluate`: scores the runs of a text task."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import Rows, examples
from cortado.clients.commands.text_train import Runs, Seeds, Task

EXAMPLES = examples(
    "cortado text evaluate training/recipes/text/translation.toml -o runs/translation",
    "cortado text evaluate training/recipes/text/subjects.toml -o runs/subjects --row soft",
)


def text_evaluate(
    recipe: Task,
    output: Runs,
    results: Annotated[Path, typer.Option(help="Folder of the scores and pictures.")] = Path(
        "training/results/text"
    ),
    row: Rows = None,
    seed: Seeds = None,
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
