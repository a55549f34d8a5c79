"""`cortado keys`: the API keys of a server."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import check_places, examples

EXAMPLES = examples(
    "cortado keys keys.json",
    "cortado keys keys.json --add phone-app",
    "cortado keys keys.json --remove phone-app",
)


def keys(
    file: Annotated[Path, typer.Argument(help="The file, which CORTADO_KEYS names to a server.")],
    add: Annotated[str | None, typer.Option(help="Make a key of this name and print it.")] = None,
    remove: Annotated[str | None, typer.Option(help="Make the key of this name worthless.")] = None,
) -> None:
    """List, make and remove the API keys of a server.

    The file has hashes alone: a key that is printed once is nowhere else. A server that runs takes
    changes at once; a stream that is live goes on to its end.
    """
    from cortado.server.keys import KeyFile

    check_places(file)
    known = KeyFile(file)
    if add is not None:
        typer.echo(known.add(add, instead_of=remove))
    elif remove is not None:
        known.remove(remove)
    else:
        for name in sorted(known.read()):
            typer.echo(name)
