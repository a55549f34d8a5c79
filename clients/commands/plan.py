"""`cortado plan`: how many servers a load takes, and what they cost."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import examples, list_facts

EXAMPLES = examples(
    "cortado plan --streams 10000",
    "cortado plan --streams 10000 --peak 2 --start-seconds 180 --target 0.6",
    "cortado plan --streams 700 --servers 2 --failure-hours 24",
    "cortado plan --streams 10000 --measured streams.json",
)

MONTH = 730  # hours
SERVER_GIB, STREAM_GIB = 0.5, 0.55 / 1024  # of memory, as docs/scaling.md derives them
STREAM_MEGABITS = 0.256  # a second: 16,000 samples of 16 bits
STORED_MEGABYTES = 0.159  # of a stream's state, each time that it is saved
SAVE_SECONDS = 5


def plan(
    streams: Annotated[
        float, typer.Option(min=0.1, max=1e7, help="Live streams, in the mean of a day.")
    ],
    minutes: Annotated[float, typer.Option(min=0.1, help="Mean length of a stream.")] = 5.0,
    peak: Annotated[
        float, typer.Option(min=1, max=2, help="The busiest moment of a day, in means.")
    ] = 1.5,
    measured: Annotated[
        Path | None,
        typer.Option(
            help="What a server carries and its cores, as measured on one like it by: cortado bench"
            " streams --part websockets --json FILE --audio SPEECH."
        ),
    ] = None,
    capacity: Annotated[
        int | None,
        typer.Option(
            min=1, help="Streams that a server carries; 200 if not set, as two cores of an EPYC."
        ),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores of a server; 2 if not set.")
    ] = None,
    price: Annotated[float, typer.Option(min=0, help="Price of a core for an hour.")] = 0.04,
    servers: Annotated[
        int | None,
        typer.Option(min=1, help="As many servers at all times, in place of an autoscaler."),
    ] = None,
    target: Annotated[
        float, typer.Option(min=0.05, max=1, help="Share of a server that is to be used.")
    ] = 0.7,
    start_seconds: Annotated[
        float, typer.Option(min=0, help="Until a server that was ordered lets streams in.")
    ] = 60.0,
    failure_hours: Annotated[
        float, typer.Option(min=0.01, help="Between two failures of a server.")
    ] = 720.0,
    hours: Annotated[float, typer.Option(min=0.01, help="How long is simulated.")] = 24.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """Simulate a day of a load: how many servers it takes, and their price.

    Streams come at random and last exponentially long, servers fail, and an autoscaler lags.
    """
    from cortado.clients.bench.plan import Fleet, Load, simulate

    carried, cores = _server(measured, capacity, cores)
    fleet = Fleet(
        capacity=carried,
        least=servers or 1,
        most=servers or Fleet.most,
        target=target,
        start_seconds=start_seconds,
        failure_hours=failure_hours,
    )
    found = simulate(Load(streams, 60 * minutes, peak), fleet, hours, seed)
    mean, live = found.server_hours / hours, found.stream_hours / hours
    partly = "" if hours % 24 == 0 or peak == 1 else ", if all of it were like these hours"
    lines = {
        "streams": f"{found.came:,} came, {live:,.1f} live on average",
        "refused": f"{found.refused:,} ({found.refused_share:.2%})",
        "moved": f"{found.moved:,} to another server, of which {found.cut:,} had to begin anew",
        "servers": f"{mean:,.1f} on average, {found.most_servers:,} at most",
        "a server": f"{carried:,} streams on {cores:,} cores",
        "cores": f"{mean * cores:,.1f} on average, {found.most_servers * cores:,} at most",
        "memory": f"{mean * SERVER_GIB + live * STREAM_GIB:,.1f} GiB",
        "network": f"{live * STREAM_MEGABITS:,.1f} Mbit/s in",
        "store": f"{live * STORED_MEGABYTES / SAVE_SECONDS:,.2f} MB/s written",
        "price": f"{mean * cores * price * MONTH:,.0f} a month{partly}",
    }
    if live:
        lines["an hour of speech"] = f"{mean * cores * price / live:.5f}"
    list_facts(lines)


def _server(measured: Path | None, capacity: int | None, cores: int | None) -> tuple[int, int]:
    """Return the streams that a server carries, and its cores."""
    from cortado.clients.bench.plan import CORES, Fleet
    from cortado.clients.bench.streams.report import COMMAND, capacity_and_cores

    if measured is None:
        return capacity or Fleet.capacity, cores or CORES
    for name, value in (("capacity", capacity), ("cores", cores)):
        if value is not None:
            raise ValueError(f"expected --measured or --{name}, got both: {measured} and {value}")
    found = capacity_and_cores(measured)
    if found.capacity > found.measured:
        typer.echo(
            f"cortado: {measured} has loads of up to {found.measured:,} streams, and the plan puts"
            f" {found.capacity:,} on a server: {COMMAND} --count {found.capacity} measures so many",
            err=True,
        )
    return found.capacity, found.cores
