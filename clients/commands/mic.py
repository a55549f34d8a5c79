"""`cortado mic`: live captions of the microphone, in the terminal."""

from typing import Annotated

import typer

from cortado.clients.commands.terminal import examples

EXAMPLES = examples("cortado mic", "cortado mic --url wss://example.org/v1/stream")


def mic(
    url: Annotated[
        str, typer.Option(help="The server's stream, ws:// or wss://.")
    ] = "ws://127.0.0.1:8000/v1/stream",
    device: Annotated[
        str | None,
        typer.Option(help="A number or a part of a name; the system's default if not given."),
    ] = None,
    list_devices: Annotated[
        bool, typer.Option("--list-devices", help="List the microphones and stop.")
    ] = False,
) -> None:
    """Speak into the microphone and read in the terminal."""
    import asyncio

    from cortado.clients import microphone

    if list_devices:
        for each in microphone.inputs():
            typer.echo(f"{'*' if each.is_default else ' '} {each.number:3}  {each.name}")
        return
    chosen = int(device) if device and device.isdecimal() else device

    def write(text: str) -> None:
        typer.echo(text, nl=False)

    def tell(line: str) -> None:
        typer.echo(line, err=True)

    asyncio.run(microphone.speak(url, chosen, write, tell))
