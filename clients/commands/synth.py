"""`cortado synth`: makes a corpus with synthetic voices."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.failures import EXIT_FAILURE, complain
from cortado.clients.commands.terminal import examples

EXAMPLES = examples(
    "cortado synth sentences.txt data/synthetic --count 1000",
    "cortado synth sentences.txt data/robot --count 50 --seed 7 --engine espeak-ng",
)


def synth(
    text: Annotated[Path, typer.Argument(help="Sentences, one a line: a-z, apostrophe, space.")],
    output: Annotated[Path, typer.Argument(help="Folder for manifest.jsonl and audio/.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many utterances.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other voices and noise.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that speak at once.")] = 1,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="espeak-ng, flite or festival; may be given again. All if not given."),
    ] = None,
) -> None:
    """Speak a text file with synthetic voices and write a manifest."""
    from cortado.clients.progress import progress_bar
    from cortado.training.synthesis.corpus import (
        DEFAULT_SHARES,
        SynthConfig,
        SynthError,
        synthesise,
    )

    shares = {name: DEFAULT_SHARES.get(name, 1.0) for name in engine or DEFAULT_SHARES}
    config = SynthConfig(text, output, count, seed, workers, shares)
    try:
        with progress_bar() as report:
            manifest = synthesise(config, partial(report, "spoken"))
    except SynthError as error:
        complain(error)
        raise typer.Exit(EXIT_FAILURE) from None
    typer.echo(manifest)
