"""`cortado soak`: a long load with faults, at a running server."""

from typing import Annotated

import typer

from cortado.clients.commands.terminal import examples

EXAMPLES = examples(
    "cortado soak",
    "cortado soak ws://127.0.0.1:8000/v1/stream --minutes 1 --streams 20",
)


def soak(
    url: Annotated[
        str, typer.Argument(help="Address of a running server's stream, without keys.")
    ] = "ws://127.0.0.1:8000/v1/stream",
    minutes: Annotated[float, typer.Option(min=0.05, help="How long.")] = 30.0,
    streams: Annotated[
        int | None, typer.Option(min=1, help="Clients at once; 80 % of its capacity if not given.")
    ] = None,
) -> None:
    """Load a server for long, with faulty clients, and watch it.

    One client in ten hangs up, talks nonsense or floods. Exit code 1 if transcripts of the same
    audio differ, an honest client fails, memory grows by over 5 % or delays rise.
    """
    import asyncio

    from cortado.clients.bench.soak import Soak, sample
    from cortado.clients.commands.failures import EXIT_FAILURE

    capacity = sample(url).capacity  # asked for in any case: it says whether a server is there
    count = streams or max(1, int(0.8 * capacity))
    typer.echo(f"clients: {count}, minutes: {minutes:g}")
    load = Soak(url)
    asyncio.run(load.run(count, 60 * minutes, lambda share: typer.echo(f"{share:.0%}", err=True)))
    for kind, number in sorted(load.findings.clients.items()):
        typer.echo(f"{number} clients: {kind.replace('_', ' ')}")
    problems = load.findings.problems()
    typer.echo("\n".join(problems) or "nothing wrong")
    if problems:
        raise typer.Exit(EXIT_FAILURE)
