"""What `cortado plan` predicts, measured: how many streams two servers behind a balancer refuse.

The servers are real, and so are their streams, which are silent: what is measured is who is let in.
It takes twelve minutes, in which the machine should have nothing else to do, so it runs on request:

    LONG_TAKE=1 make pytest ARGS="tests/docker/test_losses.py -s"
"""

import asyncio
import json
import random
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import pytest
import websockets

from cortado.clients.bench.plan import Fleet, Load, simulate
from cortado.model.checkpoint_reader import DEFAULT
from cortado.tests import needs
from cortado.tests.clients.serving import serving
from cortado.tests.docker.test_replicas import balancer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400), needs.quiet_machine]

CAPACITY, SERVERS = 10, 2
STREAMS, MEAN_SECONDS = 30.0, 6.0  # as many would live at once, had all of them room
SECONDS = 600.0  # in which chance moves the refused share by 4 % of itself
LONE_VISITS = 20
WITHIN = 0.15  # of the prediction


async def visit(url: str, seconds: float) -> float | None:
    """Open a stream for so long; return how long it had a place, None if there was none."""
    async with websockets.connect(url, open_timeout=60) as socket:
        began = asyncio.get_running_loop().time()
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


async def turnover(url: str) -> float:
    """Return the seconds for which streams have a place that last no time, one after another."""
    found = [await visit(url, 0.0) for _ in range(LONE_VISITS)]
    return mean(one for one in found if one is not None)


async def refused(url: str, load: Load, chance: random.Random) -> tuple[int, int]:
    """Return how many of the streams that came in `SECONDS` were refused, and how many came."""
    visits = []
    loop = asyncio.get_running_loop()
    until, at = loop.time() + SECONDS, loop.time()
    while at < until:
        await asyncio.sleep(max(0.0, at - loop.time()))
        visits.append(asyncio.create_task(visit(url, chance.expovariate(1 / load.seconds))))
        at += chance.expovariate(load.rate(0))
    found = await asyncio.gather(*visits)
    return found.count(None), len(found)


def test_two_servers_refuse_as_many_streams_as_was_predicted(tmp_path: Path) -> None:
    flags = ["--max-streams", str(CAPACITY)]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(serving(DEFAULT, tmp_path / f"{number}.log", *flags))
            for number in range(SERVERS)
        ]
        page = stack.enter_context(balancer(tmp_path, *servers))
        url = page.replace("http", "ws") + "/v1/stream"
        load = Load(STREAMS, MEAN_SECONDS, turnover=asyncio.run(turnover(url)))
        fleet = Fleet(CAPACITY, SERVERS, SERVERS, failure_hours=1e9)
        predicted = simulate(load, fleet, hours=24.0).refused_share  # before they come
        lost, came = asyncio.run(refused(url, load, random.Random(0)))
    sys.stdout.write(
        f"\npredicted {predicted:.1%}, measured {lost / came:.1%} ({lost} of {came} streams,"
        f" {MEAN_SECONDS:g} s each and {load.turnover:.3f} s to open and end)\n"
    )
    assert lost / came == pytest.approx(predicted, rel=WITHIN)
