"""`cortado prepare`: manifests of corpora as they are sold or downloaded."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.failures import EXIT_FAILURE
from cortado.clients.commands.terminal import console, examples

EXAMPLES = examples(
    "cortado prepare timit /cdrom/timit corpora/timit",
    "cortado prepare wsj /discs/11-* /discs/13-* corpora/wsj",
    "cortado prepare folder recordings corpora/mine --text english",
)
LISTED = 5  # problems that are shown; the file has all


def prepare(
    name: Annotated[
        str,
        typer.Argument(
            help="timit, wsj, librispeech, libritts, commonvoice, kaldi, nemo, lhotse, "
            "transcripts or folder."
        ),
    ],
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DISC... OUT", help="The corpus, one folder or more; last, where to write."
        ),
    ],
    text: Annotated[
        str,
        typer.Option(help="corpus: as its models learn it; english: a-z, ' and space; raw: as is."),
    ] = "corpus",
    workers: Annotated[int, typer.Option("--workers", "-w", min=0, help="0: all cores.")] = 0,
) -> None:
    """Write manifests of a corpus, and list what is wrong in it."""
    from rich.table import Table

    from cortado.clients.progress import progress_bar
    from cortado.model.cores import usable_cores
    from cortado.training.data import prepare as preparing

    if len(folders) < 2:
        raise ValueError("expected the corpus and a folder to write to, got one of them")
    *discs, out = folders
    with progress_bar() as report:
        prepared, problems = preparing.prepare(
            name, discs, out, text, workers or usable_cores(), report
        )
    table = Table("manifest", box=None, pad_edge=False)
    for column in ("utterances", "speakers", "hours", "published"):
        table.add_column(column, justify="left" if column == "published" else "right")
    for one in prepared:
        counts = (f"{one.utterances:,}", f"{one.speakers:,}", f"{one.hours:.2f}")
        verdict = "differs" if one.differences() else "the same" if one.published else "-"
        table.add_row(str(one.manifest), *counts, verdict)
    console().print(table)
    for one in prepared:
        for difference in one.differences():
            typer.echo(f"{one.name}: {difference}")
    for problem in problems[:LISTED]:
        typer.echo(f"cortado: {problem.where}: {problem.what}", err=True)
    if problems:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in preparing.kinds(problems).items())
        typer.echo(f"cortado: {kinds}: see {out / preparing.PROBLEMS}", err=True)
    if problems or any(one.differences() for one in prepared):
        raise typer.Exit(EXIT_FAILURE)
