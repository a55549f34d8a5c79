"""The results of `cortado bench streams`: a table and JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import floor, inf
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from cortado.clients.bench.streams.delays import TARGET, Point
from cortado.model.whole_file import write_tree

USED = 2 / 3  # of a server's cores at most; the rest is for moments in which much comes at once
COMMAND = "cortado bench streams --part websockets --json FILE"


def table(points: Sequence[Point]) -> Table:
    """Return the delays of all points."""
    found = Table(title="Delays of live streams in ms")
    for name in ("part", "backend", "chunk", "streams", "p50", "p95", "p99", "worst", "cores"):
        found.add_column(name, justify="left" if name in ("part", "backend") else "right")
    for point in points:
        delays = (point.p50, point.p95, point.p99, point.worst)
        found.add_row(
            point.part,
            point.backend,
            f"{point.chunk_ms} ms",
            f"{point.streams:,}",
            *(f"{1000 * delay:,.1f}" for delay in delays),
            f"{point.busy:.2f}",
        )
    return found


def largest(points: Iterable[Point]) -> dict[tuple[str, int], int]:
    """Return the most streams that were carried, by part and chunk."""
    found: dict[tuple[str, int], int] = {}
    for point in points:
        key = (point.part, point.chunk_ms)
        found[key] = max(found.get(key, 0), point.streams if point.carried else 0)
    return found


def lines(points: Sequence[Point], facts: Mapping[str, Any]) -> list[str]:
    """Return the summary, a line each."""
    carried = largest(points)
    summary = [
        f"{part}, {chunk} ms: {streams:,} streams with a p99 of at most {1000 * TARGET:.0f} ms"
        for (part, chunk), streams in carried.items()
    ]
    if "seconds_to_first_character" in facts:
        seconds = facts["seconds_to_first_character"]
        summary.append(f"server: {seconds:.1f} s from its launch to the first character")
    for point in points:
        if point.server_bytes:
            mebibytes, load = point.server_bytes / 2**20, f"{point.streams:,} streams"
            summary.append(f"server: {mebibytes:,.0f} MiB after {load} of {point.chunk_ms} ms")
    if "memory" in facts:
        memory = facts["memory"]
        summary.append(
            f"memory: {memory['state']:,} bytes of state a stream; resident"
            f" {memory['resident']:,.0f} bytes a stream at {memory['streams']:,}"
        )
    if "work" in facts:
        work = facts["work"]
        pairs = zip(work["streams"], work["seconds"], strict=True)
        steps = ", ".join(f"{n:,}: {1e6 * s / n:.0f} us" for n, s in pairs)
        summary.append(f"work of a step for one stream, one thread, in batches of {steps}")
        summary.append(f"work grows with streams to the power of {work['exponent']:.3f}")
    return summary


def write_json(path: Path, points: Sequence[Point], facts: Mapping[str, Any]) -> None:
    """Write points (delays in seconds, null where no result came) and facts."""
    rows = [
        {name: None if value == inf else value for name, value in asdict(point).items()}
        for point in points
    ]
    write_tree(path, {"points": rows, **facts})


def _read(row: Mapping[str, Any]) -> Point:
    """Return a point that `write_json` wrote."""
    missing = {name: inf for name, value in row.items() if value is None}
    return Point(**{**row, **missing})


class Server(NamedTuple):
    """A server, by measurements."""

    capacity: int  # streams that it carries
    cores: int
    measured: int  # streams of the largest load that it carried


def capacity_and_cores(path: Path) -> Server:
    """Return the streams that a server carries, and its cores, by what `write_json` wrote.

    Each stream takes the processor time of one in the largest load that was carried. How many that
    load had is not the limit, for the load's own generator took a part of the same cores.

    Raises:
        ValueError: the file has no such measurements, or none was carried.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        points = [_read(row) for row in content["points"]]
        cores = int(content["cores"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"expected the JSON of {COMMAND}, got {path}: {error!r}") from error
    served = [one for one in points if one.part == "websockets"]
    carried = [one for one in served if one.carried and one.busy > 0]
    if not carried:
        got = f"{len(served)} points of websockets, none of them carried"
        raise ValueError(f"expected {path} to hold a load that a server carried, got {got}")
    most = max(carried, key=lambda one: one.streams)
    capacity = max(1, floor(USED * cores * most.streams / most.busy))
    return Server(capacity, cores, most.streams)
