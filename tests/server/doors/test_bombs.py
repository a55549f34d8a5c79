"""Few bytes that decode to endless silence: refused at every door that decodes."""

import asyncio
import json

import httpx
import numpy as np
import pytest
import websockets

from cortado.model.audio import decode
from cortado.tests.server.doors.sound import encoded
from cortado.tests.server.running import Running, listened

SECONDS, SHARE = 30, 5  # of the bomb; of sound that its bytes are granted after the first two


@pytest.fixture(params=["flac", "flac/ogg"])
def bomb(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bytes:
    data = encoded(np.zeros(16_000 * SECONDS, np.float32), request.param)
    assert len(data) < 16_000 * SECONDS / 20
    monkeypatch.setattr(decode, "HOUR", 2)
    monkeypatch.setattr(decode, "LEAST_RATE", len(data) / SHARE)
    return data


def refusal(data: bytes) -> str:
    return f"expected at most {2 + SHARE} s in {len(data)} bytes, got more"


@pytest.mark.parametrize("address", ["/v1/listen", "/v1/audio/transcriptions"])
def test_an_uploaded_bomb_is_refused(address: str, bomb: bytes, at_rest: Running) -> None:
    url = at_rest.page + address
    if address == "/v1/listen":
        answer = httpx.post(url, content=bomb, timeout=None)
    else:
        answer = httpx.post(url, files={"file": ("a.flac", bomb)}, timeout=None)
    assert answer.status_code == 400
    assert refusal(bomb) in answer.text


def test_a_bomb_in_messages_is_refused(bomb: bytes, at_rest: Running) -> None:
    async def hear() -> list[dict[str, str]]:
        url = at_rest.page.replace("http", "ws") + "/v1/listen"
        async with websockets.connect(url) as socket:
            await socket.send(bomb)
            return (await listened(socket)).messages

    last = asyncio.run(hear())[-1]
    assert (last["type"], last["variant"]) == ("Error", "invalid_audio")
    assert refusal(bomb) in last["description"]
    assert json.dumps(last)
