"""`cortado transcribe`: the text of audio files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.failures import EXIT_USER_ERROR, complain
from cortado.clients.commands.terminal import (
    Backend,
    Checkpoint,
    Hold,
    Lm,
    Width,
    examples,
    use_one_thread,
)

EXAMPLES = examples("cortado transcribe talk.mp3", "cortado transcribe --json *.wav > out.jsonl")


def transcribe(
    files: Annotated[list[Path], typer.Argument(help="Audio or video files of any common kind.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a file, with each character's time.")
    ] = False,
    vad: Annotated[
        bool,
        typer.Option(
            "--vad",
            help="Let a voice activity detector hear where utterances end;"
            " needs the extra cortado-asr[vad].",
        ),
    ] = False,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Print the text of audio files as it is decided."""
    from cortado.model.checkpoint_reader import DEFAULT
    from cortado.model.files import recognizer_of_each, transcribe_files
    from cortado.model.search.beam import asked_for
    from cortado.model.streaming.vad import load_vad

    use_one_thread()
    detector = load_vad() if vad else None
    recognizer_of = recognizer_of_each(
        checkpoint or DEFAULT, backend, asked_for(beam, hold, lm), lm
    )
    if not transcribe_files(recognizer_of, files, as_json, sys.stdout, complain, detector):
        raise typer.Exit(EXIT_USER_ERROR)
