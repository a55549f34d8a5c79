"""Real clients' messages, mutated, to a real server, beside honest streams.

    python -m cortado.tests.server.mutations 100000

sends so many to each protocol (or to those that are named behind the number) of a server in a
process of its own, and says what was found:
answers by their kind, faults in its log, its memory before and after, and whether the streams of
honest clients beside them kept their text.
"""

import asyncio
import base64
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import get_args
from urllib.parse import urlencode

import typer
import websockets

from cortado.clients.bench.soak import sample
from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode
from cortado.model.checkpoint_reader import DEFAULT
from cortado.server.protocol.messages import Compressed
from cortado.tests.clients.serving import ROOT, serving
from cortado.tests.model.untrained import noise
from cortado.tests.server.doors.sound import encoded, wav
from cortado.tests.server.running import converse, pcm

PER_CONVERSATION = 20  # messages, at most
TOGETHER = 4  # conversations at once
SOUND = noise(1, 0.5)
KINDS = ("ogg", "webm", "flac", "mp3", "aac")
FILES = [wav(SOUND), *(encoded(SOUND, kind) for kind in KINDS), encoded(SOUND, "fragments")]
RAW = [pcm(SOUND), SOUND.tobytes(), bytes(range(256)) * 30]  # the last as 24 bits, or as codes
BASE64 = [base64.b64encode(one).decode() for one in (wav(SOUND), *RAW)]
OPENINGS: dict[str, list[str | bytes]] = {  # with which a conversation begins well
    "cortado": [
        '{"type":"start","sample_rate":16000,"encoding":"pcm_s16le","endpoints":true,"keep":true}',
        '{"type":"start","silence_ms":400,"alternatives":3,"phrases":["ada lovelace","naas"]}',
        *(
            f'{{"type":"start","encoding":"{kind}","sample_rate":48000}}'
            for kind in ("pcm_f32le", "pcm_s24le", "pcm_s32le", "mulaw", "alaw")
        ),
        *(f'{{"type":"start","encoding":"{kind}"}}' for kind in get_args(Compressed)),
    ],
    "deepgram": ['{"type":"KeepAlive"}'],
    "openai": [
        '{"type":"session.update","session":{"type":"transcription","audio":{"input":'
        '{"format":{"type":"audio/pcm","rate":24000},"turn_detection":null}}}}',
        '{"type":"session.update","event_id":"e1","session":{"type":"transcription","audio":'
        '{"input":{"format":{"type":"audio/pcmu"},"transcription":{"model":"whisper-1","prompt":'
        '"Ada Lovelace, ZyntriQix","keywords":["gyre"]},"turn_detection":{"type":"server_vad",'
        '"silence_duration_ms":400}}},"include":["item.input_audio_transcription.logprobs"]}}',
        '{"type":"transcription_session.update","session":{"input_audio_format":"g711_alaw",'
        '"input_audio_transcription":{"prompt":"We speak of Ada."},"turn_detection":null}}',
    ],
    "vosk": [
        '{"config":{"sample_rate":16000,"words":true}}',
        '{"config":{"sample_rate":8000.0,"max_alternatives":3,"phrase_list":["ada","naas"]}}',
    ],
}
SAID: dict[str, list[str | bytes]] = {
    "cortado": [
        *OPENINGS["cortado"],
        '{"type":"resume","token":"AAAAAAAAAAAAAAAAAAAAAAAA","characters":3,"utterances":1}',
        '{"type":"resume","state":"AAAA","encoding":"pcm_s16le","keep":true}',
        *(f'{{"type":"{kind}"}}' for kind in ("flush", "keep_alive", "suspend", "end")),
        *RAW,
        *FILES,
    ],
    "deepgram": [
        *(f'{{"type":"{kind}"}}' for kind in ("KeepAlive", "Finalize", "CloseStream")),
        *RAW,
        *FILES,
    ],
    "openai": [
        *OPENINGS["openai"],
        *(f'{{"type":"input_audio_buffer.append","audio":"{one}"}}' for one in BASE64),
        '{"type":"input_audio_buffer.commit"}',
        '{"type":"input_audio_buffer.clear"}',
    ],
    "vosk": [*OPENINGS["vosk"], '{"eof":1}', '{"reset":1}', *RAW, *FILES],
}
QUERIES = [  # of Deepgram's address
    [],
    *([("encoding", kind), ("sample_rate", "8000")] for kind in ("linear16", "linear32", "alaw")),
    *([("encoding", kind)] for kind in ("opus", "ogg-opus", "flac")),
    [("encoding", "linear16"), ("sample_rate", "8000"), ("channels", "2"), ("multichannel", "1")],
    [("multichannel", "true"), ("channels", "2")],
    [("encoding", "opus"), ("multichannel", "true"), ("channels", "2")],
    [("encoding", "mulaw"), ("sample_rate", "8000"), ("channels", "3")],
    [("interim_results", "true"), ("vad_events", "true"), ("utterance_end_ms", "1000")],
    [("alternatives", "5"), ("endpointing", "400"), ("keyterm", "ada lovelace"), ("keyterm", "b")],
    [
        ("endpointing", "false"),
        ("keywords", "gyre:2"),
        ("encoding", "mulaw"),
        ("sample_rate", "8000"),
    ],
]
ADDRESSES = {"cortado": "/v1/stream", "deepgram": "/v1/listen", "openai": "/v1/realtime"}
FAULTS = (
    "Traceback",
    "session failed",
    "engine failed",
    "step failed",
    "stream failed",
    "internal_error",
)


def mutated(random: Random, frame: str | bytes) -> str | bytes:
    """Return a frame with some bytes changed, cut out or repeated; one in four as it is."""
    data = bytearray(frame if isinstance(frame, bytes) else frame.encode())
    for _ in range(random.choice([0, 1, 3, 20])):
        place = random.randrange(len(data) + 1)
        length = int(len(data) ** random.random())
        match random.randrange(4):
            case 0:
                data[place : place + 1] = bytes([random.randrange(256)])
            case 1:
                del data[place : place + length]
            case 2:
                data[place:place] = data[place : place + length]
            case 3:
                data[place:place] = random.choice([b"\x00", b"\xff" * 4, b'"', b"{", b"e9", b"-"])
    return bytes(data) if isinstance(frame, bytes) else data.decode(errors="replace")


def address(page: str, name: str, random: Random) -> str:
    """Return where a protocol is spoken, with one of the queries that it takes."""
    query = "?" + urlencode(random.choice(QUERIES)) if name == "deepgram" else ""
    return page.replace("http", "ws", 1) + ADDRESSES.get(name, "/") + query


async def attack(page: str, name: str, count: int, seed: int = 0) -> Counter[str]:
    """Send so many messages; return how often the server's messages were of which kind."""
    random, answers = Random(f"{name} {seed}"), Counter[str]()
    sent = 0

    async def conversation() -> None:
        nonlocal sent
        url = address(page, name, random)
        async with websockets.connect(url, max_size=None, open_timeout=None) as socket:
            reading = asyncio.create_task(_read(socket, answers))
            try:
                if random.random() < 0.7:  # a stream that begins well goes on for longer
                    await socket.send(random.choice(OPENINGS[name]))
                for _ in range(random.randint(1, PER_CONVERSATION)):
                    if reading.done():
                        break
                    await socket.send(mutated(random, random.choice(SAID[name])))
                    sent += 1
            except websockets.ConnectionClosed:
                pass
            if random.random() < 0.5:
                socket.transport.abort()
            else:
                await socket.close()
            await reading

    async def one_after_another() -> None:
        while sent < count:
            await conversation()

    async with asyncio.TaskGroup() as group:
        for _ in range(TOGETHER):
            group.create_task(one_after_another())
    return answers


async def _read(socket: websockets.ClientConnection, answers: Counter[str]) -> None:
    try:
        async for frame in socket:
            message = json.loads(frame)
            kind = message.get("type", "answer")
            if kind in ("error", "Error"):
                kind = str(message.get("code") or message.get("variant") or message["error"])[:60]
            answers[kind] += 1
    except websockets.ConnectionClosed:
        pass
    answers[f"close {socket.close_code}"] += 1


async def beside(page: str, name: str, count: int, speech: Samples, seed: int = 0) -> Counter[str]:
    """Attack while an honest client says `speech` again and again; its text has to stay the same.

    Raises:
        AssertionError: it did not.
    """
    url, audio = address(page, "cortado", Random()), pcm(speech)
    frames: list[str | bytes] = [
        '{"type":"start"}',
        audio[:30_001],
        audio[30_001:],
        '{"type":"end"}',
    ]
    expected = (await converse(url, *frames)).messages[-1]
    assert expected["type"] == "final"
    assert expected["text"]
    attacking = asyncio.create_task(attack(page, name, count, seed))
    honest = 0
    while not attacking.done():
        found = (await converse(url, *frames)).messages[-1]
        assert found == expected, f"expected {expected}, got {found}"
        honest += 1
        await asyncio.wait([attacking], timeout=0.5)
    answers = attacking.result()
    answers["honest streams"] = honest
    return answers


def main(count: int, names: Sequence[str]) -> None:
    """Attack a server of the shipped model by so many messages to each of some protocols."""
    speech = decode(ROOT / "clients" / "web" / "sample.webm")[: 4 * 16_000]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with serving(DEFAULT, log) as served:
            for name in names:
                url = address(served.page, "cortado", Random())
                # so that what is made once is made
                asyncio.run(beside(served.page, name, 500, speech, seed=1))
                before, began = sample(url).memory / 1e6, time.monotonic()
                answers = asyncio.run(beside(served.page, name, count, speech))
                seconds, after = time.monotonic() - began, sample(url).memory / 1e6
                typer.echo(f"{name}: {count} messages in {seconds:.0f} s;")
                typer.echo(f"  memory {before:.0f} MB before, {after:.0f} MB after;")
                typer.echo(f"  {answers.most_common()}")
            assert served.process.poll() is None
        lines = log.read_text().splitlines()
        typer.echo(f"{len(lines)} lines of log; faults:")
        typer.echo("\n".join(one for one in lines if any(map(one.__contains__, FAULTS))) or "none")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or list(SAID))
