"""`cortado bench endless`: a day of sound through one stream."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clients.commands.terminal import Backend, Checkpoint, examples, use_one_thread

if TYPE_CHECKING:
    from training.endless import Findings

EXAMPLES = examples(
    "cortado bench endless data/dev.jsonl --hours 24",
    "cortado bench endless data/dev.jsonl --hours 0.5 --json endless.json",
)


def endless(
    manifest: Annotated[Path, typer.Argument(help="Recordings with texts, heard again and again.")],
    hours: Annotated[
        float, typer.Option(min=0.02, help="Hours of sound, as fast as they go.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other noises.")] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything here as JSON.")
    ] = None,
    checkpoint: Checkpoint = None,
    backend: Backend = "auto",
) -> None:
    """Push hours of speech, silence, noise, music and worse through one stream."""
    from clients.progress import progress_bar
    from model.backend import load_online
    from model.checkpoint import DEFAULT
    from training.endless import endure, recordings

    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ValueError(f"expected a folder {json_file.parent}, got none")
    use_one_thread()
    online = load_online(checkpoint or DEFAULT, backend)
    with progress_bar() as report:
        found = endure(online, recordings(manifest), hours, report, seed)
    if json_file is not None:
        json_file.write_text(json.dumps(dataclasses.asdict(found), indent=2) + "\n")
    for line in lines(found, online.name):
        typer.echo(line)


def lines(found: "Findings", backend: str) -> list[str]:
    """Return the findings for people."""
    quiet = [
        f"{found.written[kind]} in {found.seconds[kind] / 60:.1f} min of {kind}"
        for kind in found.written
        if kind in found.seconds
    ]
    return [
        f"heard {found.hours:.2f} h in one stream, {backend}; all recordings {found.rounds} times",
        f"word errors: {found.first_wer:.1%} in the first round, {found.last_wer:.1%} in the last",
        f"characters where nobody spoke: {', '.join(quiet)}",
        f"utterances: {found.utterances}, the longest {found.longest:.1f} s",
        f"largest drift of a time: {found.drift_ms:.6f} ms",
        "a step: median {:.3f} ms at first, {:.3f} ms at last; ".format(*found.step_ms)
        + "99th percentile {:.3f} and {:.3f} ms".format(*found.worst_ms),
        "suspended stream: {:,} bytes at first, {:,} at last".format(*found.state_bytes),
        "largest memory: {:.1f} MiB at first, {:.1f} MiB at last".format(*found.memory_mib),
    ]
