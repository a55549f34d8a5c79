"""`cortado align`: a picture of the attention over a recording."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import Checkpoint, check_places, examples, use_one_thread

EXAMPLES = examples(
    "cortado align talk.wav",
    "cortado align talk.wav --text 'what is reference' --expected --out talk.png",
)
LONGEST = 120.0  # seconds that a picture can hold


def align(
    file: Annotated[Path, typer.Argument(help="A recording of any common kind.")],
    text: Annotated[
        str | None, typer.Option(help="Its text; the recognised one if not given.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The picture: .svg, .png or .pdf; NAME.svg here if not given."
        ),
    ] = None,
    expected: Annotated[
        bool, typer.Option("--expected", help="Draw the expected alignment of training as well.")
    ] = False,
    checkpoint: Checkpoint = None,
) -> None:
    """Draw what the attention looks at for each character."""
    from cortado.model.adaptation import adapted_to_recording
    from cortado.model.audio.decode import decode
    from cortado.model.checkpoint import load
    from cortado.model.checkpoint_reader import DEFAULT
    from cortado.training.scoring.attending import attend
    from cortado.training.scoring.attention_picture import check_suffix, draw

    use_one_thread()
    place = out or Path(f"{file.stem}.svg")
    check_suffix(place)
    check_places(place)
    samples = decode(file, LONGEST)
    recognizer = adapted_to_recording(load(checkpoint or DEFAULT), samples)
    reference = None if text is None else " ".join(text.lower().split())
    found = attend(recognizer, samples, reference, expected)
    draw(found, place, found.text)
    typer.echo(place)
