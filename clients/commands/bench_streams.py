"""`cortado bench streams`: how many live streams this machine carries, and what one costs."""

import dataclasses
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cortado.clients.commands.terminal import (
    Backend,
    Checkpoint,
    Hold,
    Json,
    Lm,
    Width,
    check_places,
    console,
    examples,
    load_served,
)

if TYPE_CHECKING:
    from cortado.clients.bench.streams.delays import Point
    from cortado.model.arrays import Samples
    from cortado.model.progress import Progress
    from cortado.model.streaming.interface import StreamingRecognizer

EXAMPLES = examples(
    "cortado bench streams --audio talk.mp3",
    "cortado bench streams --part engine --chunk 100 --count 1000 --seconds 20 --audio speech/",
    "cortado bench streams --part websockets --count 300 --json streams.json",
)
CHUNKS = (40, 100, 250)  # ms
LADDER = (50, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 4000, 5000)
WEBSOCKET_LADDER = (1, 30, 100, 150, 200, 300, 400, 600)
RECORDINGS = 40  # of a folder


class Part(StrEnum):
    """What is measured."""

    ENGINE = "engine"
    WEBSOCKETS = "websockets"
    MEMORY = "memory"


def bench_streams(
    part: Annotated[
        list[Part] | None,
        typer.Option(
            help="engine (without sockets), websockets (with a server and a load generator),"
            " memory (bytes and work of a stream); may be given again. All if not given."
        ),
    ] = None,
    chunk: Annotated[
        list[int] | None, typer.Option(min=10, help="Milliseconds of audio that come at once.")
    ] = None,
    count: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Streams; growing numbers until they are too many if not given."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each measurement.")] = 8.0,
    audio: Annotated[
        list[Path] | None,
        typer.Option(help="Speech: files, or folders of them; the page's sample if not given."),
    ] = None,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
    threads: Annotated[
        int, typer.Option(min=0, help="Threads of the model; 0 for one a core.")
    ] = 0,
    json_file: Json = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Measure how many live streams this machine carries, at the pace of speech."""
    from cortado.clients.bench.streams import report
    from cortado.clients.bench.streams.memory import memory, work
    from cortado.clients.progress import progress_bar
    from cortado.model.cores import usable_cores

    check_places(json_file)
    parts = part or list(Part)
    if Part.WEBSOCKETS in parts and sys.platform != "linux":
        raise ValueError(
            f"expected Linux, whose /proc tells the server's processor time, got {sys.platform}; "
            "--part engine and --part memory run anywhere"
        )
    recognizer = load_served(checkpoint, backend, beam, hold, lm)
    speech = _speech(audio or [])
    points: list[Point] = []
    facts: dict[str, Any] = {"backend": recognizer.name, "cores": usable_cores()}
    with progress_bar() as progress:
        if Part.ENGINE in parts:
            points += _engine(recognizer, speech, chunk, count, seconds, threads, progress)
        if Part.WEBSOCKETS in parts:
            options = {"checkpoint": checkpoint, "beam": beam, "hold": hold, "lm": lm}
            settings = {name: str(value) for name, value in options.items() if value is not None}
            settings |= {"backend": backend, "threads": str(threads)}
            name = recognizer.name
            found, more = _websockets(settings, speech, chunk, count, seconds, progress, name)
            points += found
            facts |= more
        if Part.MEMORY in parts:
            facts["memory"] = dataclasses.asdict(memory(recognizer))
            facts["work"] = dataclasses.asdict(work(recognizer, speech))
    if json_file is not None:
        report.write_json(json_file, points, facts)
    out = console()
    if points:
        out.print(report.table(points))
    for line in report.lines(points, facts):
        out.print(line)


def _speech(paths: list[Path]) -> "list[Samples]":
    """Return the recordings in files and folders, or the page's where none are given."""
    from cortado.clients.results import inputs
    from cortado.model.audio.decode import decode
    from cortado.server.sample import speech
    from cortado.training.data.corpora.source import AUDIO_SUFFIXES

    each = (inputs([str(path)], AUDIO_SUFFIXES)[:RECORDINGS] for path in paths)
    return [decode(one.path) for some in each for one in some] or [speech()]


def _engine(
    recognizer: "StreamingRecognizer",
    speech: "list[Samples]",
    chunks: list[int] | None,
    counts: list[int] | None,
    seconds: float,
    threads: int,
    progress: "Progress",
) -> "list[Point]":
    """Return the points of the engine for each chunk, up to the first that is not carried."""
    from cortado.clients.bench.streams.live import measure

    points = []
    for chunk in chunks or CHUNKS:
        ladder = counts or LADDER
        for k, count in enumerate(ladder):
            progress(f"engine: {count} streams, {chunk} ms", k, len(ladder))
            point = measure(
                recognizer,
                speech,
                streams=count,
                chunk_ms=chunk,
                seconds=seconds,
                threads=threads,
            )
            points.append(point)
            if not point.carried and not counts:
                break
    return points


def _websockets(
    settings: dict[str, str],
    speech: "list[Samples]",
    chunks: list[int] | None,
    counts: list[int] | None,
    seconds: float,
    progress: "Progress",
    backend: str,
) -> "tuple[list[Point], dict[str, Any]]":
    """Return the points of a server in a process of its own, and what it takes."""
    import asyncio

    from cortado.clients.bench.served import served
    from cortado.clients.bench.streams.load import first_character, measure
    from cortado.clients.bench.streams.memory import resident
    from cortado.clients.connection import StreamError

    points, facts = [], {}
    with served(settings | {"headroom": "1", "log-level": "error"}) as server:
        first = asyncio.run(first_character(server.url, speech[0]))
        if first is not None:
            facts["seconds_to_first_character"] = first - server.launched
        for chunk in chunks or (100,):
            for count in counts or WEBSOCKET_LADDER:
                try:
                    point = measure(
                        server,
                        speech,
                        backend=backend,
                        streams=count,
                        chunk_ms=chunk,
                        seconds=seconds,
                        progress=progress,
                    )
                except StreamError as error:  # what was measured before is worth keeping
                    typer.echo(f"cortado: {count} streams of {chunk} ms: {error}", err=True)
                    break
                points.append(dataclasses.replace(point, server_bytes=resident(server.pid)))
                if not counts and point.p99 > 1:
                    break
    return points, facts
