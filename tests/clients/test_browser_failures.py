"""What the page says when something goes wrong, and how it looks, in a real Chromium."""

import io
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from PIL import Image
from websockets.sync.client import connect

from cortado.tests.clients.chromium import Page, chromium, executable
from cortado.tests.clients.serving import Served, serving

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(600),  # a server and a browser start, perhaps beside other work
    pytest.mark.skipif(executable() is None, reason="no Chromium (apt install chromium)"),
]

ELSEWHERE = "cortado.test"  # a name that is not localhost, so that http is not secure


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    flags = (
        "--use-fake-device-for-media-stream",
        f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
    )
    with chromium(tmp_path_factory.mktemp("profile"), *flags) as page:
        yield page


@pytest.fixture
def page(browser: Page, server: Served) -> Page:
    browser.allow_microphone("granted")
    browser.look()
    browser.open(server.page)
    browser.messages.clear()
    return browser


@contextmanager
def occupied(served: Served, streams: int) -> Iterator[None]:
    """Hold that many streams of the server."""
    with ExitStack() as held:
        for _ in range(streams):
            socket = held.enter_context(connect(served.stream))
            socket.send('{"type": "start"}')
            assert json.loads(socket.recv(timeout=20))["type"] == "ready"
        yield


def start(page: Page) -> None:
    page.click("toggle")
    page.wait_for("document.body.dataset.state === 'listening'")


def wait_for_failure(page: Page) -> str:
    page.wait_for("!document.getElementById('failure').hidden")
    assert page.evaluate("document.body.dataset.state") == "idle"
    return page.text("failure-title")


def open_file(page: Page, path: Path) -> None:
    document = page.command("DOM.getDocument")["root"]["nodeId"]
    found = page.command("DOM.querySelector", nodeId=document, selector="#file")
    page.command("DOM.setFileInputFiles", nodeId=found["nodeId"], files=[str(path)])


def test_a_denied_microphone_is_told_and_can_be_tried_again(page: Page) -> None:
    page.allow_microphone("denied")
    page.click("toggle")
    assert wait_for_failure(page) == "The microphone was not allowed."
    assert "icon beside the address" in page.text("failure-advice")
    page.allow_microphone("granted")
    page.click("retry")
    page.wait_for("document.body.dataset.state === 'listening'")
    assert page.evaluate("document.getElementById('failure').hidden")
    page.click("toggle")
    page.wait_for("document.body.dataset.state === 'idle'")


def test_a_microphone_that_is_gone_is_told(page: Page) -> None:
    page.evaluate("document.getElementById('device').add(new Option('gone', 'gone', true, true))")
    page.click("toggle")
    assert wait_for_failure(page) == "No microphone was found."


def test_an_insecure_address_is_told_at_once_and_still_takes_recordings(
    page: Page, server: Served, recording: Path
) -> None:
    page.open(f"http://{ELSEWHERE}:{server.port}/")
    assert wait_for_failure(page) == "The microphone is locked on this address."
    assert "https or localhost" in page.text("failure-advice")
    open_file(page, recording)
    page.wait_for("document.querySelector('.caption')")
    assert page.transcript()


def test_a_file_that_is_no_sound_is_told(page: Page, tmp_path: Path) -> None:
    text = tmp_path / "poem.wav"
    text.write_text("no sound at all")
    open_file(page, text)
    assert wait_for_failure(page) == "This file could not be read as sound."
    assert "poem.wav" in page.text("failure-origin")


def test_a_server_that_is_full_is_told(page: Page, server: Served) -> None:
    with occupied(server, 64):
        page.click("toggle")
        assert wait_for_failure(page) == "The server is full."


def test_a_server_that_goes_is_told_and_the_text_stays_until_it_is_back(
    browser: Page, model: Path, folder: Path
) -> None:
    browser.allow_microphone("granted")
    with serving(model, folder / "mortal.log") as mortal:
        browser.open(mortal.page)
        start(browser)
        time.sleep(1.5)
        mortal.process.kill()
        assert wait_for_failure(browser) == "The connection was lost."
        assert browser.evaluate("document.querySelectorAll('.take').length") == 1
        assert "broken off" in browser.evaluate("document.querySelector('.caption').textContent")
        browser.click("retry")
        browser.wait_for("document.body.dataset.state !== 'idle'")
        assert wait_for_failure(browser) == "The server cannot be reached."
    with serving(model, folder / "again.log", "--port", str(mortal.port)):
        browser.click("retry")
        browser.wait_for("document.body.dataset.state === 'listening'")
        assert browser.evaluate("document.querySelectorAll('.take').length") == 2
        browser.click("toggle")
        browser.wait_for("document.body.dataset.state === 'idle'")


@pytest.mark.parametrize(("scheme", "is_bright"), [("light", True), ("dark", False)])
def test_the_page_follows_the_colour_scheme(scheme: str, is_bright: bool, page: Page) -> None:
    page.look(scheme)
    image = Image.open(io.BytesIO(page.screenshot())).convert("L")
    assert (image.getpixel((5, 5)) > 200) == is_bright  # type: ignore[operator]
    darkest, brightest = image.getextrema()
    assert brightest - darkest > 150, "text stands out from the paper"  # type: ignore[operator]


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_nothing_runs_over_the_edge_of_a_window(width: int, page: Page, recording: Path) -> None:
    page.look(width=width, height=640)
    open_file(page, recording)
    page.wait_for("document.querySelector('.caption')")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.scrollHeight") <= 640
    assert page.evaluate(
        """[...document.querySelectorAll("button, summary")].every((each) => {
            const { left, right, top, bottom } = each.getBoundingClientRect();
            return left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight;
        })"""
    )


def test_the_page_says_what_it_is_to_those_who_cannot_see_it(page: Page) -> None:
    tree = page.command("Accessibility.getFullAXTree")["nodes"]
    named = {
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if "role" in node
    }
    assert {
        ("button", "Start"),
        ("button", "Copy"),
        ("button", "Clear"),
        ("button", "Open a recording"),
        ("meter", "Loudness"),
        ("region", "Transcript"),
    } <= named
    assert page.messages == []
