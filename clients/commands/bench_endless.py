"""`cortado bench endless`: a day of sound through one stream."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortado.clients.commands.terminal import (
    Backend,
    Checkpoint,
    Hold,
    Json,
    Lm,
    Width,
    check_places,
    examples,
    load_served,
    use_one_thread,
)

if TYPE_CHECKING:
    from cortado.clients.bench.endless.run import Findings

EXAMPLES = examples(
    "cortado bench endless data/dev.jsonl --hours 24",
    "cortado bench endless data/dev.jsonl --hours 0.5 --json endless.json",
)


def bench_endless(
    manifest: Annotated[
        Path, typer.Argument(help="Recordings with texts, played again and again.")
    ],
    hours: Annotated[
        float, typer.Option(min=0.03, help="Hours of sound, as fast as they go.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other noises.")] = 0,
    json_file: Json = None,
    checkpoint: Checkpoint = None,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
) -> None:
    """Push hours of speech, silence, noise, music and worse through one stream."""
    from cortado.clients.bench.endless.run import run_day
    from cortado.clients.bench.endless.sounds import recordings
    from cortado.clients.progress import progress_bar
    from cortado.model.whole_file import write_tree

    check_places(json_file)
    use_one_thread()
    recognizer = load_served(checkpoint, backend, beam, hold, lm)
    with progress_bar() as report:
        found = run_day(recognizer, recordings(manifest), hours, report, seed)
    if json_file is not None:
        write_tree(json_file, dataclasses.asdict(found))
    for line in lines(found, recognizer.name):
        typer.echo(line)


def lines(found: "Findings", backend: str) -> list[str]:
    """Return the findings for people."""
    quiet = [
        f"{rate:.1f} in {kind} ({found.false_characters[kind]} in all)"
        for kind, rate in found.per_minute.items()
    ]
    return [
        f"played {found.hours:.2f} h in one stream, {backend}; all recordings {found.rounds} times",
        "word errors: {:.1%} in the first tenth of the rounds, {:.1%} in the last".format(
            *found.wer
        ),
        f"characters a minute without speech: {', '.join(quiet)}",
        f"utterances: {found.utterances}, the longest {found.longest:.1f} s",
        f"largest drift of a time: {found.drift_ms:.6f} ms",
        "then a step, in turn: median {:.4f} ms in a new stream, {:.4f} ms in this; ".format(
            *found.step_ms
        )
        + "99th percentile {:.3f} and {:.3f} ms".format(*found.worst_ms),
        "suspended stream: {:,} bytes at first, {:,} at last".format(*found.state_bytes),
        "largest memory: {:.1f} MiB at first, {:.1f} MiB at last".format(*found.memory_mib),
    ]
