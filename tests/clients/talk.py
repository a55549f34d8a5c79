"""Speak a 16-bit wav file into a server by the Python client and print what came, as JSON.

python -m cortado.tests.clients.talk ADDRESS FILE [SPEED] [PAUSE_AT], as talk.js does.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from cortado.clients.stream import Stream, connect, resume
from cortado.server.protocol.messages import Endpoint

HEAD = 44  # bytes of the wav file before its samples
FRAME = 1280  # bytes

Told = dict[str, Any]


async def main(address: str, file: str, speed: str = "0", pause_at: str = "-1") -> None:
    told: Told = {"characters": [], "endpoints": [], "states": [], "restarts": []}
    frames = Path(file).read_bytes()[HEAD:]
    pieces = [frames[at : at + FRAME] for at in range(0, len(frames), FRAME)]
    stop = int(pause_at) + 1
    async with connect(address) as stream:
        sys.stderr.write("ready\n")
        await speak(stream, pieces[: stop or None], float(speed), told, last=not stop)
    if stop and stream.suspended:
        async with resume(address, stream.suspended) as stream:
            told["states"].append("paused")
            await speak(stream, pieces[stop:], float(speed), told, last=True)
    assert stream.final
    told["duration"] = stream.final.duration + (told["restarts"] or [0])[-1]
    sys.stdout.write(json.dumps(told))


async def speak(stream: Stream, pieces: list[bytes], speed: float, told: Told, last: bool) -> None:
    async def send() -> None:
        for piece in pieces:
            await stream.send(piece)
            told["states"].append(stream.state)
            if speed > 0:
                await asyncio.sleep(0.04 / speed)
        await (stream.end() if last else stream.suspend())

    sending = asyncio.create_task(send())
    async for message in stream.messages():
        if isinstance(message, Endpoint):
            told["endpoints"].append([message.start, message.end])
        else:
            told["characters"] += map(list, zip(message.text, message.times, strict=True))
    await sending
    told["restarts"] += stream.restarts


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
