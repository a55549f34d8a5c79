"""A take of half an hour at ten times its pace, in a real Chromium: memory and frames stay flat.

It takes four minutes, in which the machine should have nothing else to do, so it runs on request:

    LONG_TAKE=1 make pytest ARGS="tests/clients/test_long_take.py -s"
"""

import base64
import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model.audio.decode import decode
from cortado.tests import needs
from cortado.tests.clients.chromium import Page, chromium
from cortado.tests.clients.serving import Served
from cortado.tests.clients.speech import RATE

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.timeout(2400),
    needs.quiet_machine,
    needs.chromium,
    needs.recordings,
]

Samples = NDArray[np.float32]
MINUTES = 30  # of the take
PACE = 10.0
PIECE = 2**18  # characters of it that are handed over at once
TURNS, TURN = 12, 10.0  # with the picture and without it, and the seconds of each

# The page's sample becomes another recording, and the clock of the sound goes faster than others.
PREPARE = """(() => {{
    const bytes = Uint8Array.from(atob(window.given.join("")), (one) => one.charCodeAt(0));
    const plain = window.fetch;
    window.fetch = (address, ...more) => String(address).endsWith("sample.webm")
        ? Promise.resolve(new Response(bytes)) : plain(address, ...more);
    const clock = Object.getOwnPropertyDescriptor(BaseAudioContext.prototype, "currentTime").get;
    Object.defineProperty(BaseAudioContext.prototype, "currentTime", {{
        get() {{ return {pace} * clock.call(this); }},
    }});
    const clear = CanvasRenderingContext2D.prototype.clearRect;
    window.drawn = 0;
    CanvasRenderingContext2D.prototype.clearRect = function (...area) {{
        window.drawn += this.canvas.id === "picture";
        return clear.apply(this, area);
    }};
}})()"""


SHOW = """(() => {{
    const box = document.getElementById("seen");
    if (box.checked !== {}) box.click();
}})()"""


class Seen(NamedTuple):
    """What a page had used at an instant."""

    second: float  # of the clock
    drawn: int  # pictures
    heap: float  # MB of objects that are still reached
    nodes: int  # of the document
    resident: float  # MB of the process that draws the page
    drawing: float  # seconds of processor time of that process
    browser: float  # of all processes of the browser


def recording(minutes: float) -> bytes:
    """Return read speech of that length, as Ogg Opus."""
    rows = [json.loads(line) for line in (needs.RECORDINGS / "dev.jsonl").read_text().splitlines()]
    found: list[Samples] = []
    for row in cycle(rows):
        found.append(decode(needs.RECORDINGS / row["audio"]))
        if sum(map(len, found)) >= minutes * 60 * RATE:
            break
    return encoded(np.concatenate(found)[: round(minutes * 60 * RATE)])


def encoded(samples: Samples) -> bytes:
    """Return (N,) samples as Ogg Opus."""
    from io import BytesIO

    out = BytesIO()
    with av.open(out, "w", format="ogg") as container:
        stream = container.add_stream("libopus", rate=RATE)
        stream.bit_rate = 16_000
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate = RATE
        fifo = av.AudioFifo()
        fifo.write(frame)
        size = RATE // 50
        while piece := fifo.read(size):
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return out.getvalue()


def see(page: Page) -> Seen:
    """Look at a page, after its garbage was collected."""
    page.command("HeapProfiler.collectGarbage")
    found = page.command("Performance.getMetrics")["metrics"]
    metrics = {one["name"]: one["value"] for one in found}
    processes = Page(page._socket, "").command("SystemInfo.getProcessInfo")["processInfo"]
    drawing = max(
        (one for one in processes if one["type"] == "renderer"), key=lambda p: p["cpuTime"]
    )
    pages = int(Path(f"/proc/{drawing['id']}/statm").read_text().split()[1])
    return Seen(
        time.monotonic(),
        page.evaluate("window.drawn"),
        metrics["JSHeapUsedSize"] / 1e6,
        int(metrics["Nodes"]),
        pages * os.sysconf("SC_PAGESIZE") / 1e6,
        drawing["cpuTime"],
        sum(one["cpuTime"] for one in processes),
    )


def begin(page: Page, server: Served, sound: bytes, pace: float) -> None:
    """Let the page hear a recording as its sample."""
    page.look("light", 1440, 900)
    page.open(server.page)
    page.command("Performance.enable")
    text = base64.b64encode(sound).decode()
    page.evaluate("window.given = []")
    for at in range(0, len(text), PIECE):
        page.evaluate(f"window.given.push('{text[at : at + PIECE]}')")
    page.evaluate(PREPARE.format(pace=pace))
    page.click("sample")
    page.wait_for("document.querySelector('.word')", seconds=600)


def rates(seen: Sequence[Seen]) -> list[float]:
    """Return the pictures a second between each two looks."""
    pairs = pairwise(seen)
    return [(b.drawn - a.drawn) / (b.second - a.second) for a, b in pairs]


def test_memory_and_frames_stay_flat_over_half_an_hour(
    server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chromium(tmp_path) as page:
        begin(page, server, recording(MINUTES), PACE)
        seen: list[Seen] = []
        heard = "document.getElementById('elapsed').textContent"
        told = []
        while page.evaluate("document.body.dataset.state") == "listening":
            seen.append(see(page))
            told.append(page.evaluate(heard))
            time.sleep(60 / PACE)
        words = page.evaluate("document.querySelectorAll('.word').length")
        failure = page.text("failure-title")
        assert page.messages == []
    drawn = rates(seen)
    with capsys.disabled():
        sys.stdout.write("\n heard  frames/s  heap MB   nodes  resident MB  cpu s\n")
        for clock, frames, one in zip(told[1:], drawn, seen[1:], strict=True):
            sys.stdout.write(
                f"{clock:>6} {frames:9.1f} {one.heap:8.1f} {one.nodes:7} {one.resident:12.0f}"
                f" {one.drawing:6.1f}\n"
            )
        sys.stdout.write(f"{words} words {failure}\n")
    assert not failure
    assert told[-1] >= f"{MINUTES - 2}:00"
    first, last = seen[len(seen) // 6], seen[-1]  # from the fifth minute on
    assert words > 2000
    assert last.heap - first.heap < 25
    assert last.resident - first.resident < 100
    third = len(drawn) // 3
    assert np.mean(drawn[-third:]) > 0.85 * np.mean(drawn[:third])


def test_the_picture_of_a_running_take_takes_at_most_15_percent_of_a_core(
    server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shown and switched off in turn, so that whatever else runs here bears on both alike."""
    used: dict[bool, list[Seen]] = {True: [], False: []}  # by whether it is shown: begin, end, ...
    with chromium(tmp_path) as page:
        begin(page, server, recording(3), 1.0)
        for turn in range(TURNS):
            is_shown = turn % 2 == 0
            page.evaluate(SHOW.format(str(is_shown).lower()))
            time.sleep(1)
            used[is_shown].append(see(page))
            time.sleep(TURN)
            used[is_shown].append(see(page))
    cost = {}
    for is_shown, seen in used.items():
        turns = list(zip(seen[::2], seen[1::2], strict=True))
        seconds = sum(last.second - first.second for first, last in turns)
        page_alone = sum(last.drawing - first.drawing for first, last in turns) / seconds
        cost[is_shown] = sum(last.browser - first.browser for first, last in turns) / seconds
        drawn = sum(last.drawn - first.drawn for first, last in turns) / seconds
        assert drawn > 5 if is_shown else drawn == 0
        with capsys.disabled():
            sys.stdout.write(
                f"\npicture {'on' if is_shown else 'off'}: {drawn:.1f} frames/s, {page_alone:.1%}"
                f" of a core in the page, {cost[is_shown]:.1%} in all of the browser"
            )
    assert cost[True] - cost[False] < 0.15
