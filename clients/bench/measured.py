"""How many streams a server carries, by what `cortado bench streams` measured on its machine."""

import json
from math import floor
from pathlib import Path
from typing import NamedTuple

from cortado.clients.bench.streams.delays import Point

USED = 2 / 3  # of a server's cores at most; the rest is for moments in which much comes at once
COMMAND = "cortado bench streams --part websockets --json FILE"


class Measured(NamedTuple):
    """What a server carries."""

    capacity: int  # streams
    cores: int


def measured(path: Path) -> Measured:
    """Return the capacity of a server on the machine whose measurements a file holds.

    Each stream takes the processor time of one in the largest load that was carried. How many that
    load had is not the limit, for the load's own generator took a part of the same cores.

    Raises:
        ValueError: the file has no such measurements, or none was carried.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        points = [Point(**one) for one in content["points"]]
        cores = int(content["cores"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"expected the JSON of {COMMAND}, got {path}: {error!r}") from error
    served = [one for one in points if one.part == "websockets"]
    carried = [one for one in served if one.carried and one.busy > 0]
    if not carried:
        got = f"{len(served)} points of websockets, none of them carried"
        raise ValueError(f"expected {path} to hold a load that a server carried, got {got}")
    largest = max(carried, key=lambda one: one.streams)
    return Measured(max(1, floor(USED * cores * largest.streams / largest.busy)), cores)
