"""`cortado text table`: writes the table of the text tasks from stored scores."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import examples

EXAMPLES = examples(
    "cortado text table training/recipes/text/translation.toml training/recipes/text/subjects.toml"
    " training/recipes/text/subjects-copy.toml",
)


def text_table(
    recipes: Annotated[list[Path], typer.Argument(help="The TOML files of the tasks, in order.")],
    results: Annotated[Path, typer.Option(help="Folder of the scores.")] = Path(
        "training/results/text"
    ),
    page: Annotated[Path, typer.Option(help="The page with the table.")] = Path(
        "training/RESULTS.md"
    ),
) -> None:
    """Write the table of the text tasks from stored scores."""
    from cortado.training.text import recipe
    from cortado.training.text.table import write

    typer.echo(write([recipe.read(path) for path in recipes], results, page))
