"""`cortado join`: streams with pauses, made of a set of recordings."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import examples

EXAMPLES = examples(
    "cortado join ../shared/data/speechocean762/dev.jsonl streams --pause 2.5",
    "cortado join recordings.jsonl thinking --pause 5",
)


def join(
    manifest: Annotated[Path, typer.Argument(help="The manifest of the recordings.")],
    out: Annotated[Path, typer.Argument(help="The folder for the streams and their manifest.")],
    pause: Annotated[
        float, typer.Option(min=0, help="Seconds of the recording's own noise before each.")
    ] = 1.0,
) -> None:
    """Join each speaker's recordings to streams with pauses."""
    from functools import partial

    from cortado.clients.progress import progress_bar
    from cortado.training.data.join import MANIFEST
    from cortado.training.data.join import join as run

    with progress_bar() as progress:
        streams = run(manifest, out, pause, partial(progress, "streams"))
    hours = sum(one.duration for one in streams) / 3600
    typer.echo(f"{out / MANIFEST}: {len(streams):,} streams, {hours:.2f} hours")
