"""`cortado replay`: transcribes a recorded stream again and compares the results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortado.clients.commands.failures import EXIT_FAILURE
from cortado.clients.commands.terminal import (
    Backend,
    Checkpoint,
    Hold,
    Lm,
    Width,
    examples,
    load_served,
    use_one_thread,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cortado.model.streaming.interface import StreamingRecognizer
    from cortado.model.streaming.update import Update
    from cortado.server.protocol.recording import Digest
    from cortado.server.recorder import Recorded

EXAMPLES = examples(
    "cortado replay recordings/3f1c9a0d2b7e4f65.jsonl", "cortado replay recordings/*.jsonl"
)


def replay(
    files: Annotated[list[Path], typer.Argument(help="Recordings made by cortado serve --record.")],
    checkpoint: Checkpoint = None,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
) -> None:
    """Recognise recorded streams again and compare the text."""
    from cortado.server.recorder import read

    use_one_thread()
    recognizer = load_served(checkpoint, backend, beam, hold, lm)
    same = True
    for path in files:
        recorded = read(path)
        result = replayed(recognizer, recorded)
        if result.value == recorded.digest:
            typer.echo(f"{path}: the same {result.count} characters, {result.value}")
            continue
        same = False
        alike = recorded.facts["digest"] == recognizer.digest.hex()
        typer.echo(
            f"{path}: {result.count} characters, not the {recorded.characters} recorded"
            f" with {recorded.facts['model']} in {recorded.facts['backend']}"
            f"{'' if alike else ', other weights or another search'}"
        )
    if not same:
        raise typer.Exit(EXIT_FAILURE)


def replayed(recognizer: "StreamingRecognizer", recorded: "Recorded") -> "Digest":
    """Return the digest of the text of a recorded stream, recognised again.

    Raises: ValueError if its voice activity detector is not installed, or the search cannot weigh
    its phrases.
    """
    from cortado.model.audio.resampler import Resampler
    from cortado.model.streaming.live import LiveStream
    from cortado.model.streaming.vad import load_vad
    from cortado.server.protocol.pcm import PcmDecoder
    from cortado.server.protocol.recording import Digest

    start, digest = recorded.start, Digest()
    decoder, resampler = PcmDecoder(start.encoding), Resampler(start.sample_rate)
    vad = load_vad() if "vad" in recorded.facts else None
    stream = LiveStream(recognizer, vad=vad, options=start.options)

    def take(updates: "Iterator[Update]") -> None:
        for update in updates:
            text = "".join(one.text for one in update.characters)
            digest.characters(text, [one.time for one in update.characters])
            if update.endpoint:
                digest.endpoint(update.endpoint.start, update.endpoint.end)

    for frame in recorded.frames:
        take(stream.push(resampler.push(decoder.decode(frame))))
    take(stream.push(resampler.finish()))
    take(stream.end())
    return digest
