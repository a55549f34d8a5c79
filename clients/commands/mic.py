"""`cortado mic`: live captions of the microphone, in the terminal."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import ENDINGS, Phrases, check_places, ending, examples

EXAMPLES = examples(
    "cortado mic",
    "cortado mic --pick --output meeting.srt",
    'cortado mic --phrase "Ada Lovelace" --phrase Guasimas',
    "cortado mic --url wss://example.org/v1/stream",
)


def mic(
    url: Annotated[
        str,
        typer.Option(
            help="The server's stream, ws:// or wss://. Its key is read from CORTADO_API_KEY."
        ),
    ] = "ws://127.0.0.1:8000/v1/stream",
    device: Annotated[
        str | None,
        typer.Option(help="A number or a part of a name; the system's default if not given."),
    ] = None,
    pick: Annotated[bool, typer.Option("--pick", help="Ask which microphone.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where the text is saved at the end, as its ending says: txt, srt, vtt, json or"
            " ctm.",
        ),
    ] = None,
    phrase: Phrases = None,
    list_devices: Annotated[
        bool, typer.Option("--list-devices", help="List the microphones and stop.")
    ] = False,
) -> None:
    """Speak into the microphone and read in the terminal."""
    import asyncio

    from rich.console import Console

    from cortado.clients.captioning import Captions, caption
    from cortado.clients.connection import check_address
    from cortado.clients.microphone import Microphone
    from cortado.model.transcript import FORMATS, Transcript
    from cortado.model.whole_file import write_whole

    form = ending(output)
    if output and not form:
        raise ValueError(f"expected a file that ends in {', '.join(ENDINGS)}, got {output}")
    check_places(output)
    if list_devices:
        return _list()
    check_address(url)
    chosen = _picked() if pick else int(device) if device and device.isdecimal() else device
    captions = Captions(Microphone(chosen), Console(highlight=False))

    def tell(line: str) -> None:
        typer.echo(line, err=True)

    try:
        asyncio.run(caption(captions, url, tell, phrase or ()))
    finally:
        if output and form and captions.stream is not None:
            heard = Transcript(tuple(captions.utterances), captions.microphone.seconds)
            write_whole(output, FORMATS[form](output, heard))
            tell(f"Saved as {output}.")


def _list() -> None:
    from cortado.clients.microphone import inputs, none_here

    found = inputs()
    if not found:
        raise none_here()
    for each in found:
        typer.echo(f"{'*' if each.is_default else ' '} {each.number:3}  {each.name}")


def _picked() -> int:
    """Ask which microphone; return its number."""
    from rich.prompt import IntPrompt

    from cortado.clients.microphone import inputs

    _list()
    found = inputs()
    usual = next((each.number for each in found if each.is_default), found[0].number)
    numbers = [str(each.number) for each in found]
    return IntPrompt.ask("Microphone", choices=numbers, show_choices=False, default=usual)
