"""Measure what `cortado plan` predicts: how many streams two servers behind a balancer refuse.

    python -m cortado.tests.docker.losses

The servers are real, and so are their streams, which are silent: what is measured is who is let in.
"""

import asyncio
import json
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import websockets

from cortado.clients.bench.plan import Fleet, Load, simulate
from cortado.model.checkpoint_reader import DEFAULT
from cortado.tests.clients.serving import serving
from cortado.tests.docker.test_replicas import balancer

CAPACITY, SERVERS = 4, 2
LOAD = Load(streams=10.0, seconds=8.0)
SECONDS = 600.0


async def visit(url: str, seconds: float) -> float | None:
    """Open a stream for so long; return how long it took a place, None if there was none."""
    began = asyncio.get_running_loop().time()
    async with websockets.connect(url, open_timeout=60) as socket:
        await socket.send('{"type":"start"}')
        answer = json.loads(await socket.recv())
        if answer["type"] == "error":
            assert answer["code"] == "too_many_streams", answer
            return None
        while seconds > 0:
            await asyncio.sleep(min(seconds, 5.0))
            seconds -= 5.0
            await socket.send('{"type":"keep_alive"}')
        await socket.send('{"type":"end"}')
        async for _ in socket:
            pass
    return asyncio.get_running_loop().time() - began


async def measured(url: str, chance: random.Random) -> list[float | None]:
    """Return what became of each stream that came."""
    visits = []
    loop = asyncio.get_running_loop()
    until, at = loop.time() + SECONDS, loop.time()
    while at < until:
        await asyncio.sleep(max(0.0, at - loop.time()))
        visits.append(asyncio.create_task(visit(url, chance.expovariate(1 / LOAD.seconds))))
        at += chance.expovariate(LOAD.rate(0))
    return await asyncio.gather(*visits)


def main() -> None:
    """Print the refused share, as predicted and as measured."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flags = ["--max-streams", str(CAPACITY)]
        servers = [
            stack.enter_context(serving(DEFAULT, folder / f"{number}.log", *flags))
            for number in range(SERVERS)
        ]
        page = stack.enter_context(balancer(folder, *servers))
        url = page.replace("http", "ws") + "/v1/stream"
        found = asyncio.run(measured(url, random.Random(0)))
    came, refused = len(found), found.count(None)
    # As the streams were: a busy machine opens and ends them slowly.
    seconds = mean(one for one in found if one is not None)
    load = Load(came / SECONDS * seconds, seconds)
    fleet = Fleet(CAPACITY, SERVERS, SERVERS, failure_hours=1e9)
    predicted = simulate(load, fleet, hours=24.0).refused_share
    sys.stdout.write(
        f"predicted {predicted:.1%}, measured {refused / came:.1%} ({refused} of {came} streams,"
        f" {seconds:.1f} s each)\n"
    )


if __name__ == "__main__":
    main()
