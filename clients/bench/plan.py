"""How many servers a load takes: a simulation with arrivals, failures and an autoscaler that lags.

Streams come at random (Poisson) and last exponentially long, so that how many live at each server
is all there is to know. A stream that comes goes to the server with the fewest, and is refused
where none has room. One whose server fails or is stopped looks for room at the others.
"""

from collections import deque
from dataclasses import dataclass
from math import ceil, exp, pi, sin

import numpy as np
from numpy.typing import NDArray

DAY = 86_400.0  # seconds
LONGEST_STEP = 5.0  # seconds
CORES = 2  # of a server that carries `Fleet.capacity`
STEPS_OF_A_STREAM = 60  # in its mean length, at least

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """Streams as they come."""

    streams: float  # that live at once, in the mean of a day
    seconds: float = 300.0  # mean length of one
    peak: float = 1.0  # the busiest moment of a day in means, from 1 to 2; the day is a sine
    turnover: float = 0.0  # seconds for which one has its place beyond its length: to open and end

    @property
    def held(self) -> float:
        """The seconds for which a stream has its place, in the mean."""
        return self.seconds + self.turnover

    def rate(self, at: float) -> float:
        """Return the streams that come in a second, at so many seconds after the quietest."""
        return self.streams / self.seconds * (1 - (self.peak - 1) * sin(2 * pi * at / DAY + pi / 2))


@dataclass(frozen=True)
class Fleet:
    """Servers, and who starts and stops them."""

    capacity: int = 200  # streams that one carries
    least: int = 1  # servers
    most: int = 100_000  # as many as `least`: nobody starts or stops any
    target: float = 0.7  # share of the capacity that is to be used
    look_seconds: float = 10.0  # between two looks at the load
    start_seconds: float = 60.0  # until a server that was ordered lets streams in
    idle_seconds: float = 600.0  # for which fewer have to do before one is stopped
    failure_hours: float = 720.0  # between two failures of one server, on average
    restart_seconds: float = 30.0  # until it is back
    keep_seconds: float = 30.0  # for which a stream can go on elsewhere

    def wanted(self, demand: float) -> int:
        """Return the servers for so many streams."""
        return min(self.most, max(self.least, ceil(demand / (self.capacity * self.target))))


@dataclass
class Outcome:
    """What became of the streams, and what it took."""

    hours: float
    came: int = 0  # streams
    refused: int = 0  # for want of room
    moved: int = 0  # because their server failed or was stopped
    cut: int = 0  # of those, that found no room in time and began anew
    server_hours: float = 0.0
    stream_hours: float = 0.0
    most_servers: int = 0

    @property
    def refused_share(self) -> float:
        """The share of all streams that were refused."""
        return self.refused / max(1, self.came)


def place(live: Counts, capacity: int, count: int) -> tuple[Counts, int]:
    """Return how many streams each server has with `count` more, and how many found room.

    The emptiest of the servers, which have `live` streams, gets the next.
    """
    count = min(count, int((capacity - live).sum()))
    if count <= 0:
        return live, 0
    order = np.sort(live)
    taken = np.arange(1, len(order) + 1) * order - np.cumsum(order)  # to lift all below to this one
    below = int(np.searchsorted(taken, count, side="right"))
    level, rest = divmod(count + int(order[:below].sum()), below)
    filled = np.maximum(live, level)
    filled[np.flatnonzero(filled == level)[:rest]] += 1
    return filled, count


class _Simulation:
    """Servers and streams at one moment."""

    def __init__(self, load: Load, fleet: Fleet, hours: float, seed: int) -> None:
        self.load, self.fleet, self.outcome = load, fleet, Outcome(hours)
        self._random = np.random.default_rng(seed)
        self.step = min(LONGEST_STEP, load.held / STEPS_OF_A_STREAM)
        at_first = round(load.rate(0) * load.held)
        self._live: Counts = np.zeros(fleet.wanted(at_first), np.int64)
        self._live, _ = place(self._live, fleet.capacity, at_first)
        self._starting = list[float]()  # when each lets streams in
        self._homeless = deque[tuple[float, int]]()  # since when, how many
        self._looked, self._refused, self._enough_since = 0.0, 0, 0.0

    def advance(self, now: float) -> None:
        """Take one step."""
        self._live -= self._random.binomial(self._live, 1 - exp(-self.step / self.load.held))
        self._fail(now)
        ready = sum(at <= now for at in self._starting)
        self._starting = [at for at in self._starting if at > now]
        self._live = np.append(self._live, np.zeros(ready, np.int64))
        self._move(now)
        self._come(now)
        if now - self._looked >= self.fleet.look_seconds:
            self._look(now)
        servers = len(self._live) + len(self._starting)
        self.outcome.server_hours += servers * self.step / 3600
        self.outcome.stream_hours += int(self._live.sum()) * self.step / 3600
        self.outcome.most_servers = max(self.outcome.most_servers, servers)

    def _fail(self, now: float) -> None:
        chance = self.step / (3600 * self.fleet.failure_hours)
        failed = np.flatnonzero(self._random.random(len(self._live)) < chance)
        self._starting += [now + self.fleet.restart_seconds] * len(failed)
        self._without(failed, now)

    def _without(self, servers: NDArray[np.intp], now: float) -> None:
        """Take servers away; their streams look for room elsewhere."""
        if moved := int(self._live[servers].sum()):
            self._homeless.append((now, moved))
            self.outcome.moved += moved
        self._live = np.delete(self._live, servers)

    def _move(self, now: float) -> None:
        """Let streams without a server go on, those that wait longest first."""
        while self._homeless and self._homeless[0][0] < now - self.fleet.keep_seconds:
            self.outcome.cut += self._homeless.popleft()[1]
        while self._homeless:
            since, count = self._homeless[0]
            self._live, placed = place(self._live, self.fleet.capacity, count)
            if placed < count:
                self._homeless[0] = since, count - placed
                return
            self._homeless.popleft()

    def _come(self, now: float) -> None:
        came = int(self._random.poisson(self.load.rate(now) * self.step))
        self._live, placed = place(self._live, self.fleet.capacity, came)
        self.outcome.came += came
        self.outcome.refused += came - placed
        self._refused += came - placed

    def _look(self, now: float) -> None:
        """Start servers for all who are there or were refused; stop what is idle for long."""
        homeless = sum(count for _, count in self._homeless)
        wanted = self.fleet.wanted(int(self._live.sum()) + homeless + self._refused)
        self._looked, self._refused = now, 0
        more = wanted - len(self._live) - len(self._starting)
        self._starting += [now + self.fleet.start_seconds] * max(0, more)
        if more >= 0:
            self._enough_since = now
        elif now - self._enough_since >= self.fleet.idle_seconds:
            self._without(np.argsort(self._live)[: min(-more, len(self._live) - 1)], now)


def simulate(load: Load, fleet: Fleet, hours: float = 24.0, seed: int = 0) -> Outcome:
    """Return what becomes of a load at a fleet in so many hours, which begin at the quietest.

    Raises: ValueError if a figure is out of reason.
    """
    if not 1 <= load.peak <= 2:
        raise ValueError(f"expected a peak of 1 to 2 means, got {load.peak:g}")
    if fleet.least > fleet.most:
        raise ValueError(f"expected at least {fleet.least} servers to be had, got {fleet.most}")
    simulation = _Simulation(load, fleet, hours, seed)
    steps = max(1, round(3600 * hours / simulation.step))
    simulation.step = 3600 * hours / steps
    for number in range(1, 1 + steps):
        simulation.advance(number * simulation.step)
    return simulation.outcome
