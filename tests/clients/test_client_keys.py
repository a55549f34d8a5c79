"""The key of a server: how the Python client, the JavaScript client and the page bring it."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.clients.connection import KEY_VARIABLE, StreamError
from cortado.clients.speech import stream
from cortado.clients.stream import connect
from cortado.server.keys import KeyFile
from cortado.tests import needs
from cortado.tests.clients.axe import violations
from cortado.tests.clients.chromium import Page
from cortado.tests.clients.cutting import way_to
from cortado.tests.clients.serving import ENVIRONMENT, Served, serving, transcribe

Samples = NDArray[np.float32]
TALK = Path(__file__).parent / "web" / "talk.js"


@dataclass(frozen=True)
class Locked:
    """A server that wants a key, and one that it knows."""

    served: Served
    file: KeyFile
    key: str


@pytest.fixture(scope="module")
def locked(model: Path, folder: Path) -> Iterator[Locked]:
    file = KeyFile(folder / "keys.json")
    key = file.add("tests")
    with serving(model, folder / "locked.log", "--keys", str(file.path)) as served:
        yield Locked(served, file, key)


def test_a_key_opens_a_stream_as_an_argument_and_from_the_environment(
    locked: Locked, recording: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    heard = stream(recording, locked.served.stream, key=locked.key)
    assert [word.text for word in heard] == text.split()
    monkeypatch.setenv(KEY_VARIABLE, locked.key)
    assert [word.text for word in stream(recording, locked.served.stream)] == text.split()
    monkeypatch.setenv(KEY_VARIABLE, "ck_other")
    assert list(stream([], locked.served.stream, key=locked.key)) == []


def test_a_key_may_end_a_line_and_is_not_told_where_no_header_could_hold_it(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, f"{locked.key}\n")
    assert list(stream([], locked.served.stream)) == []
    for key in ("ck_geheim\nck_x", "ck_geheimniß"):
        with pytest.raises(StreamError, match="printable ASCII") as caught:
            list(stream([], locked.served.stream, key=key))
        assert caught.value.code == "unauthorized"
        assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "advice"), [("", "wants an API key"), ("ck_tests_x", "does not know this API key")]
)
def test_a_stream_without_the_right_key_is_refused_with_what_helps(
    key: str, advice: str, locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(StreamError, match=advice) as caught:
        list(stream([], locked.served.stream))
    assert caught.value.code == "unauthorized"
    assert KEY_VARIABLE in caught.value.message


async def test_a_lost_stream_brings_its_key_again(
    locked: Locked, spoken: Samples, text: str
) -> None:
    with way_to(locked.served.port) as way:
        async with connect(f"ws://127.0.0.1:{way.port}/v1/stream", key=locked.key) as stream:
            await stream.send(spoken[: len(spoken) // 2])
            await asyncio.sleep(0.2)
            way.cut()
            await stream.send(spoken[len(spoken) // 2 :])
            await stream.end()
            assert "".join([chars.text async for chars in stream]) == text
            assert way.connections == 2


async def test_a_key_that_was_removed_ends_a_lost_stream_at_once(locked: Locked) -> None:
    key = locked.file.add("short")
    with way_to(locked.served.port) as way:
        async with connect(f"ws://127.0.0.1:{way.port}/v1/stream", key=key) as stream:
            locked.file.remove("short")
            way.cut()
            with pytest.raises(StreamError, match="does not know this API key"):
                async with asyncio.timeout(30):
                    await anext(aiter(stream))


def test_the_client_in_node_brings_a_key_too(locked: Locked, recording: Path, text: str) -> None:
    node = needs.program("node", "nodejs")
    command = [node, "--experimental-websocket", str(TALK), locked.served.stream, str(recording)]
    done = subprocess.run(
        command,
        env=ENVIRONMENT | {KEY_VARIABLE: locked.key},
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)["characters"]
    assert "".join(character for character, _ in told) == text
    done = subprocess.run(
        command, env=ENVIRONMENT | {KEY_VARIABLE: "ck_x"}, capture_output=True, text=True
    )
    assert "code: 'unauthorized'" in done.stderr


@pytest.fixture
def page(browser: Page, locked: Locked) -> Page:
    """The page of the locked server, as somebody who has no key opens it."""
    browser.open_first(locked.served.page + "/?debug=1")
    return browser


FORM = "!document.getElementById('key-form').hidden"


def enter(page: Page, key: str) -> None:
    page.evaluate(f"document.getElementById('key').value = {key!r}")
    page.evaluate("document.getElementById('key-form').requestSubmit()")


@pytest.mark.browser
@pytest.mark.slow
@needs.chromium
def test_the_page_asks_for_the_key_keeps_it_and_forgets_it(
    page: Page, locked: Locked, model: Path, opened: Path
) -> None:
    page.wait_for(FORM)
    assert page.evaluate("document.activeElement.id") == "key"
    for scheme in ("light", "dark"):
        page.look(scheme)
        assert violations(page) == []
    enter(page, "ck_wrong")
    page.wait_for("document.querySelector('#key-form [role=alert]').textContent")
    page.click("sample")
    page.wait_for_state("idle")
    page.wait_for(FORM)
    enter(page, f" {locked.key} ")
    page.wait_for(f"!({FORM})")
    assert page.text("error-sentence").startswith("Expect errors")
    page.hear_file(opened)
    [found] = transcribe(model, opened)
    assert page.transcript().split() == found["text"].split()
    page.open(locked.served.page + "/?later")
    page.wait_for("document.getElementById('error-sentence').textContent")
    assert not page.evaluate(FORM)
    page.click("key-forget")
    page.wait_for(FORM)


@pytest.mark.browser
@pytest.mark.slow
@needs.chromium
def test_a_link_may_bring_the_key_which_leaves_the_address(page: Page, locked: Locked) -> None:
    page.open(f"{locked.served.page}/?link#key={locked.key}")
    page.wait_for("document.getElementById('error-sentence').textContent")
    assert page.evaluate("location.href") == f"{locked.served.page}/?link"
    assert not page.evaluate(FORM)


@pytest.mark.browser
@pytest.mark.slow
@needs.chromium
def test_a_link_with_the_key_may_come_to_a_page_that_is_open(page: Page, locked: Locked) -> None:
    page.wait_for(FORM)
    page.evaluate(f"location.hash = 'key={locked.key}'")
    page.wait_for("document.getElementById('key-form').hidden")
    assert page.evaluate("[location.hash, document.activeElement.id]") == ["", "toggle"]
