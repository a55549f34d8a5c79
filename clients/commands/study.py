"""`cortado study`: train and score the rows of a comparison, and write its table."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import Rows, examples

EXAMPLES = examples(
    "cortado study training/recipes/compare/study.toml",
    "cortado study training/recipes/compare/study.toml --row soft --row mocha-2",
    "cortado study training/recipes/compare/study.toml --table",
)


def study(
    file: Annotated[Path, typer.Argument(help="The TOML file that says what is compared.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the runs; runs/NAME if not set."),
    ] = None,
    row: Rows = None,
    start: Annotated[
        Path | None,
        typer.Option(help="Checkpoint that all begin with; what the study says if not set."),
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Only write the table of what is stored.")
    ] = False,
) -> None:
    """Compare decoders: train what is missing, score, write a table."""
    from cortado.training.scoring.markdown import outside
    from cortado.training.studies import page, plan

    chosen = plan.read(file)
    outside(chosen.page, chosen.name)  # refuses a page without a place for the table
    if not table:
        from cortado.clients.progress import progress_bar
        from cortado.training.studies.run import run

        with progress_bar() as report:
            made = run(chosen, output or Path("runs") / chosen.name, row or (), start, report)
        for path in made:
            typer.echo(path)
    typer.echo(page.write(chosen))
